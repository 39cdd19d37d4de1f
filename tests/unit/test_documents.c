/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/documents.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/winnow-documents-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

/* Writes the texts into files of their own and reads them as documents. */
static wn_status read_all(const char *const *text, const size_t *n_bytes, int n,
                          struct wn_documents *out, struct wn_error *err) {
    static char path[8][64];
    struct wn_flag_texts paths = {.n = n};
    for (int i = 0; i < n; i++) {
        snprintf(path[i], sizeof path[i], "%s/%d", folder, i);
        paths.text[i] = path[i];
        FILE *file = text[i] != NULL ? fopen(path[i], "wb") : NULL;
        if (file != NULL) {
            fwrite(text[i], 1, n_bytes != NULL ? n_bytes[i] : strlen(text[i]), file);
            fclose(file);
        }
    }
    wn_status status = wn_documents_read(&paths, out, err);
    for (int i = 0; i < n; i++) {
        unlink(path[i]);
    }
    return status;
}

static void expect(const char *const *text, int n, const char *joined) {
    struct wn_documents documents;
    struct wn_error err = {0};
    assert_int_equal(read_all(text, NULL, n, &documents, &err), WN_OK);
    assert_int_equal(documents.n, n);
    assert_int_equal(documents.text.n_bytes, strlen(joined));
    assert_string_equal(documents.text.bytes, joined);
    assert_true(documents.is_text);
    for (int i = 0; i < n; i++) {
        assert_int_equal(documents.document[i].n_bytes, strlen(text[i]));
    }
    wn_documents_free(&documents);
    wn_documents_free(&documents);
}

static void a_blank_line_is_between(void **state) {
    (void)state;
    expect((const char *const[]){"one\n"}, 1, "one\n");
    expect((const char *const[]){"one", "two"}, 2, "one\n\ntwo");
    expect((const char *const[]){"one\n", "two\n"}, 2, "one\n\ntwo\n");
    expect((const char *const[]){"one\n\n", "two", "three"}, 3, "one\n\ntwo\n\nthree");
    expect((const char *const[]){"one\n\n\n", "two"}, 2, "one\n\n\ntwo");
    expect((const char *const[]){"\n", "two"}, 2, "\n\ntwo");
    expect((const char *const[]){"a", "a"}, 2, "a\n\na");
}

static void bytes_that_are_not_text(void **state) {
    (void)state;
    struct wn_documents documents;
    const size_t n_bytes[] = {3, 3, 3};
    assert_int_equal(
        read_all((const char *const[]){"one", "a\0b", "two"}, n_bytes, 3, &documents, NULL), WN_OK);
    assert_false(documents.is_text);
    assert_true(documents.document[0].is_text && documents.document[2].is_text);
    assert_false(documents.document[1].is_text);
    assert_int_equal(documents.text.n_bytes, 13);
    assert_memory_equal(documents.text.bytes, "one\n\na\0b\n\ntwo", 14);
    wn_documents_free(&documents);
}

static void what_cannot_be_read(void **state) {
    (void)state;
    struct wn_documents documents;
    struct wn_error err = {0};
    assert_int_equal(read_all((const char *const[]){"one", NULL, "two"}, NULL, 3, &documents, &err),
                     WN_E_IO);
    assert_non_null(strstr(err.message, "cannot open "));
    assert_int_equal(documents.n, 1);
    wn_documents_free(&documents);
    assert_int_equal(read_all((const char *const[]){"one", ""}, NULL, 2, &documents, &err),
                     WN_E_IO);
    assert_non_null(strstr(err.message, "it is empty"));
    wn_documents_free(&documents);
    const struct wn_flag_texts none = {.n = 0};
    assert_int_equal(wn_documents_read(&none, &documents, &err), WN_OK);
    assert_int_equal(documents.n, 0);
    assert_null(documents.text.bytes);
    wn_documents_free(&documents);
}

static void names(void **state) {
    (void)state;
    struct wn_document document[] = {{.path = "a"}, {.path = "-"}, {.path = "c"}, {.path = "d"}};
    static const char *const expected[] = {"a", "2 files: a, standard input",
                                           "3 files: a, standard input, c",
                                           "4 files: a, standard input and 2 more"};
    for (int n = 1; n <= 4; n++) {
        char text[128];
        const struct wn_documents documents = {.n = n, .document = document};
        FILE *out = tmpfile();
        wn_documents_print_names(&documents, out);
        rewind(out);
        text[fread(text, 1, sizeof text - 1, out)] = '\0';
        fclose(out);
        assert_string_equal(text, expected[n - 1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_blank_line_is_between),
        cmocka_unit_test(bytes_that_are_not_text),
        cmocka_unit_test(what_cannot_be_read),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
