/* SPDX-License-Identifier: MIT */
#ifndef WN_TEST_DATASET_CASE_H
#define WN_TEST_DATASET_CASE_H

/* A folder of its own, to be removed with dataset_remove. */
char *dataset_folder(void);
/* Writes a file of the folder. */
void dataset_write(const char *folder, const char *name, const char *text);
/* Removes the folder with the files [NULL at the end] that were written, and frees the name. */
void dataset_remove(char *folder, const char *const *name);

#endif
