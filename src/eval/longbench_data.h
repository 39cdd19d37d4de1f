/* SPDX-License-Identifier: MIT */
/* LongBench's files: DIR/<subset>.jsonl, one JSON object a line. */
#ifndef WN_EVAL_LONGBENCH_DATA_H
#define WN_EVAL_LONGBENCH_DATA_H

#include "eval/content_hash.h"
#include "eval/longbench.h"

/* Free with wn_longbench_set_free. */
struct wn_longbench_set {
    struct wn_longbench_example *example; /* [n], in the file's order */
    int64_t n;
    int64_t n_skipped; /* lines that are no usable example */
};

/*
 * Which subsets a folder has files of. WN_E_IO: the folder cannot be read; WN_E_FORMAT: it has none.
 */
wn_status wn_longbench_find(const char *folder, bool found[WN_LONGBENCH_SUBSET_COUNT],
                            struct wn_error *err);

/* What results remember the found files by: their names and bytes. Statuses of wn_text_file_read,
 * WN_E_MEMORY. */
wn_status wn_longbench_hash(const char *folder, const bool found[WN_LONGBENCH_SUBSET_COUNT],
                            struct wn_content_hash *out, struct wn_error *err);

/* Told of each line (1 ..) that is skipped; `why` is a sentence's part, such as "no answers". */
typedef void wn_longbench_note(void *user, int64_t line, const char *why);

/*
 * Reads a subset's file. A line is skipped, noted (`note` may be NULL) and counted when it is no JSON
 * object, lacks input, context or answers, has none of the class names (trec) or no paragraph's number
 * (passage_retrieval_en) that its metric needs, or belongs to another data set; blank lines are left out
 * silently. WN_E_IO: the file cannot be read, or is empty; WN_E_FORMAT: no line can be used;
 * WN_E_MEMORY.
 */
wn_status wn_longbench_read(const char *folder, enum wn_longbench_subset subset,
                            wn_longbench_note *note, void *user, struct wn_longbench_set *out,
                            struct wn_error *err);
/* A zeroed one is allowed. */
void wn_longbench_set_free(struct wn_longbench_set *set);

/*
 * Prompt formats of all subsets: those of a file like the official dataset2prompt.json, an object of
 * names and formats, and our own where it has none. Free with wn_longbench_prompts_free.
 */
struct wn_longbench_prompts {
    char *format[WN_LONGBENCH_SUBSET_COUNT];
    bool is_ours[WN_LONGBENCH_SUBSET_COUNT];
};

/* `path` NULL: our own. WN_E_IO, WN_E_FORMAT (no such object, or a format that cannot be used),
 * WN_E_MEMORY. */
wn_status wn_longbench_prompts_read(const char *path, struct wn_longbench_prompts *out,
                                    struct wn_error *err);
void wn_longbench_prompts_free(struct wn_longbench_prompts *prompts);

#endif
