/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "dataset_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *dataset_folder(void) {
    char *folder = strdup("/tmp/winnow-dataset-XXXXXX");
    assert_non_null(folder);
    assert_non_null(mkdtemp(folder));
    return folder;
}

void dataset_write(const char *folder, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

void dataset_remove(char *folder, const char *const *name) {
    for (; *name != NULL; name++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, *name);
        unlink(path);
    }
    assert_int_equal(rmdir(folder), 0);
    free(folder);
}
