/* SPDX-License-Identifier: MIT */
/* GGUF files on disk, and models split into several files. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gguf_verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void splits_are_read(void **state) {
    (void)state;
    ACCEPTED_WITH(
        "", (file_add_number("split.count", U16, 2, 2), file_add_number("split.no", U16, 2, 0)));
    assert_int_equal(gguf_info.split_count, 2);
    assert_int_equal(gguf_info.split_no, 0);
    ACCEPTED_WITH("", file_add_number("split.count", U16, 2, 0));
    assert_int_equal(gguf_info.split_count, 1);
    file_begin(); /* the first part may leave all tensors to others */
    file_add_values("");
    file_add_number("split.count", U16, 2, 2);
    file_add_number("split.no", U16, 2, 0);
    file_finish();
    assert_accepted();
    file_begin(); /* a later part has no metadata of its own */
    file_add_number("split.count", U16, 2, 2);
    file_add_number("split.no", U16, 2, 1);
    file_add_tensors("");
    file_finish();
    assert_accepted();
    assert_int_equal(gguf_info.split_no, 1);
    assert_string_equal(gguf_info.architecture, "");
    REFUSED_WITH("", file_add_number("split.count", U16, 2, 2), "does not say which");
    REFUSED_WITH(
        "", (file_add_number("split.count", U16, 2, 2), file_add_number("split.no", U16, 2, 2)),
        "part 3 of 2");
    REFUSED_WITH("", file_add_number("split.count", U32, 4, 2), "type u32 instead of u16");
    REFUSED_WITH(
        "", (file_add_number("split.count", U16, 2, 2), file_add_number("split.no", I32, 4, 0)),
        "type i32");
}

/* ---- files ---- */

static char folder[64];

static const char *path_of(const char *name) {
    static char path[160];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, size_t n) {
    FILE *out = fopen(path_of(name), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(file.bytes, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

#define assert_file_refused(name, status, part)                                               \
    do {                                                                                      \
        memset(&gguf_error, 0, sizeof(gguf_error));                                           \
        assert_int_equal(wn_gguf_check_file(path_of(name), &gguf_info, &gguf_error), status); \
        if (strstr(gguf_error.message, part) == NULL) {                                       \
            fail_msg("the message is: %s", gguf_error.message);                               \
        }                                                                                     \
    } while (0)

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/wn_gguf_XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    (void)state;
    static const char *const names[] = {"sound.gguf",
                                        "cut.gguf",
                                        "empty.gguf",
                                        "secret.gguf",
                                        "fifo",
                                        "m-00001-of-00002.gguf",
                                        "m-00002-of-00002.gguf",
                                        "other.gguf"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        unlink(path_of(names[i]));
    }
    return rmdir(folder);
}

static void files_are_checked(void **state) {
    (void)state;
    file_build("");
    write_file("sound.gguf", file.n);
    assert_int_equal(wn_gguf_check_file(path_of("sound.gguf"), &gguf_info, NULL), WN_OK);
    assert_int_equal(gguf_info.file_bytes, file.n);
    write_file("cut.gguf", file.n - 1);
    assert_file_refused("cut.gguf", WN_E_FORMAT, "cut short");
    write_file("empty.gguf", 0);
    assert_file_refused("empty.gguf", WN_E_FORMAT, "empty");
    assert_file_refused("missing.gguf", WN_E_IO, "No such file");
    assert_file_refused("", WN_E_IO, "directory");
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    assert_file_refused("fifo", WN_E_IO, "not a regular file");
    assert_int_equal(wn_gguf_check_file(NULL, &gguf_info, NULL), WN_E_ARG);
    if (geteuid() != 0) { /* root may read anything */
        write_file("secret.gguf", file.n);
        assert_int_equal(chmod(path_of("secret.gguf"), 0), 0);
        assert_file_refused("secret.gguf", WN_E_IO, "Permission denied");
    }
}

static void build_part(int count, int no) {
    file_begin();
    if (no == 0) {
        file_add_values("");
    }
    file_add_number("split.count", U16, 2, (uint64_t)count);
    file_add_number("split.no", U16, 2, (uint64_t)no);
    file_add_tensors(no == 0 ? "output_norm.weight" : "token_embd.weight blk.0.attn_q.weight");
    file_finish();
}

static void all_parts_of_a_split_are_checked(void **state) {
    (void)state;
    build_part(2, 0);
    size_t n_first = file.n;
    write_file("m-00001-of-00002.gguf", file.n);
    write_file("other.gguf", file.n);
    assert_file_refused("other.gguf", WN_E_FORMAT, "must end in -00001-of-00002.gguf");
    assert_file_refused("m-00001-of-00002.gguf", WN_E_IO, "part 2 of 2: the file cannot be opened");
    build_part(2, 1);
    write_file("m-00002-of-00002.gguf", file.n);
    assert_int_equal(wn_gguf_check_file(path_of("m-00001-of-00002.gguf"), &gguf_info, NULL), WN_OK);
    assert_int_equal(gguf_info.file_bytes, n_first + file.n);
    assert_int_equal(gguf_info.split_count, 2);
    assert_file_refused("m-00002-of-00002.gguf", WN_E_FORMAT, "give the first part");
    write_file("m-00002-of-00002.gguf", file.n - 1);
    assert_file_refused("m-00001-of-00002.gguf", WN_E_FORMAT, "part 2 of 2: the file is cut short");
    build_part(3, 1);
    write_file("m-00002-of-00002.gguf", file.n);
    assert_file_refused("m-00001-of-00002.gguf", WN_E_FORMAT, "it calls itself part 2 of 3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_are_read),
        cmocka_unit_test_setup_teardown(files_are_checked, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(all_parts_of_a_split_are_checked, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
