/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "eval/text_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of n_bytes, byte i being i % 251; returns its name. */
static void make_file(char *path, size_t n_bytes) {
    strcpy(path, "/tmp/winnow-text-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "wb");
    for (size_t i = 0; i < n_bytes; i++) {
        fputc((int)(i % 251), file);
    }
    assert_int_equal(fclose(file), 0);
}

static void whole_files_of_any_length(void **state) {
    (void)state;
    /* Around the room that reading begins with and its double. */
    static const size_t sizes[] = {1, 65534, 65535, 65536, 131070, 131071, 131072, 1000000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        char path[64];
        make_file(path, sizes[s]);
        struct wn_text_file file = {0};
        struct wn_error err = {0};
        assert_int_equal(wn_text_file_read(path, &file, &err), WN_OK);
        assert_int_equal(file.n_bytes, sizes[s]);
        for (size_t i = 0; i < sizes[s]; i++) {
            if ((unsigned char)file.bytes[i] != i % 251) {
                fail_msg("byte %zu of %zu differs", i, sizes[s]);
            }
        }
        assert_int_equal(file.bytes[sizes[s]], 0);
        wn_text_file_free(&file);
        assert_null(file.bytes);
        unlink(path);
    }
}

static void what_cannot_be_read(void **state) {
    (void)state;
    struct wn_text_file file = {0};
    struct wn_error err = {0};
    assert_int_equal(wn_text_file_read("/nonexistent/text", &file, &err), WN_E_IO);
    assert_string_equal(
        err.message, "cannot open /nonexistent/text (No such file or directory; check the path)");
    assert_int_equal(wn_text_file_read("/tmp", &file, &err), WN_E_IO);
    assert_string_equal(err.message, "cannot use /tmp (it is a directory; give a text file)");
    char path[64];
    make_file(path, 0);
    assert_int_equal(wn_text_file_read(path, &file, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "(it is empty; give a text)"));
    unlink(path);
    assert_null(file.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_files_of_any_length),
        cmocka_unit_test(what_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
