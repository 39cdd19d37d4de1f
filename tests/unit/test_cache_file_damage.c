/* SPDX-License-Identifier: MIT */
/* Files that are cut, changed or made up are refused with a sentence, and none does harm. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache_image.h"
#include "cache_repair.h"

static char folder[IMAGE_PATH_MAX], path[IMAGE_PATH_MAX];
static struct wn_pool *pool;
/* A sound file; each test has its own copy. */
static struct image image;

static int make_file(void **state) {
    (void)state;
    image_folder_new(folder, path);
    assert_int_equal(wn_pool_create(0, &pool), WN_OK);
    struct wn_store *store = image_small_store(pool);
    const struct wn_cache_contents contents = image_small_contents();
    assert_int_equal(wn_cache_file_write(path, store, &contents, NULL), WN_OK);
    wn_store_free(store);
    image = image_read(path);
    return 0;
}

static int remove_file(void **state) {
    (void)state;
    struct wn_pool_usage usage;
    wn_pool_usage(pool, &usage);
    assert_int_equal(usage.in_use_bytes, 0);
    wn_pool_free(pool);
    image_free(&image);
    image_folder_free(folder);
    return 0;
}

/* Opens and loads the file; a refusal has a sentence and leaves nothing. */
static wn_status verdict(struct wn_error *err) {
    struct wn_cache_file *file = NULL;
    struct wn_store *store = NULL;
    *err = (struct wn_error){0};
    wn_status status = wn_cache_file_open(path, &file, err);
    if (status == WN_OK) {
        status = wn_cache_file_load(file, pool, &store, err);
        wn_cache_file_close(file);
    } else {
        assert_null(file);
    }
    if (status != WN_OK) {
        assert_null(store);
        assert_int_equal(err->status, status);
        assert_non_null(strstr(err->message, path));
    }
    wn_store_free(store);
    return status;
}

static void assert_verdict(wn_status expected, const char *what) {
    struct wn_error err;
    const wn_status status = verdict(&err);
    if (status != expected || strstr(err.message, what) == NULL) {
        fail_msg("expected \"%s\", got status %d: %s", what, (int)status, err.message);
    }
}

static void assert_refused(const char *what) {
    assert_verdict(WN_E_FORMAT, what);
}

/* The changed image, its checksums made right. */
static void assert_repaired_refused(const char *what) {
    cache_repair(image.bytes, image.n);
    image_write(path, image.bytes, image.n);
    assert_refused(what);
}

/* ---- no cache file ---- */

static void what_is_no_file_is_refused(void **state) {
    (void)state;
    char other[2 * IMAGE_PATH_MAX];
    struct wn_cache_file *file = NULL;
    struct wn_error err;
    assert_int_equal(wn_cache_file_open(NULL, &file, &err), WN_E_ARG);
    assert_int_equal(wn_cache_file_open(folder, &file, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "it is a folder"));
    snprintf(other, sizeof(other), "%s/none.wkv", folder);
    assert_int_equal(wn_cache_file_open(other, &file, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "none.wkv (No such file"));
    snprintf(other, sizeof(other), "%s/pipe.wkv", folder);
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_int_equal(wn_cache_file_open(other, &file, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "it is not a regular file"));
    assert_int_equal(wn_cache_file_open("/dev/null", &file, NULL), WN_E_IO);
    assert_null(file);
}

static void other_files_are_told_apart(void **state) {
    (void)state;
    image_write(path, "", 0);
    assert_refused("is not a Winnow cache: it is empty");
    image_write(path, "GGUF and much more than a header has, so that length is no reason", 65);
    assert_refused("is not a Winnow cache");
    image_write(path, "x", 1);
    assert_refused("is not a Winnow cache");
    image_write(path, "\x89WKV\n\x1a\n\x01", 8); /* CR LF became LF */
    assert_refused("it was copied as text");
    image.bytes[7] = '\r';
    image_write(path, image.bytes, image.n);
    assert_refused("it was copied as text");
}

static void versions_are_told_apart(void **state) {
    (void)state;
    assert_int_equal(cache_get(image.bytes + 8, 4), 1); /* halves need no newer one */
    cache_put(image.bytes + 8, 4, 4);
    image_write(path, image.bytes, image.n);
    assert_refused("was made by a newer winnow (its format has version 4, and version 3 is read)");
    image_write(path, image.bytes, 12); /* whatever a newer header looks like */
    assert_refused("was made by a newer winnow");
    cache_put(image.bytes + 8, 2, 4);
    assert_repaired_refused(
        "was made by an older winnow, in a version of the format that is no longer "
        "read: make it anew");
    cache_put(image.bytes + 8, 0, 4);
    assert_repaired_refused("there is no version 0");
}

static void version_1_has_no_quantised_rows(void **state) {
    (void)state;
    uint8_t *shapes = image_section(&image, "SHAPES");
    for (size_t at = 4; at <= 12; at += 8) {
        cache_put(shapes + at, 1, 4);
        assert_repaired_refused("layer 0 has a shape that no model has");
        cache_put(image.bytes + 8, 3, 4);
        assert_repaired_refused("it has fewer entries than its heads need");
        cache_put(shapes + at, 3, 4); /* no type */
        assert_repaired_refused("layer 0 has a shape that no model has");
        cache_put(shapes + at, 0, 4);
        cache_put(image.bytes + 8, 1, 4);
    }
}

/* ---- damage ---- */

static void every_cut_is_refused(void **state) {
    (void)state;
    for (size_t n = image.n; n-- > 0;) {
        struct wn_error err;
        assert_int_equal(truncate(path, (off_t)n), 0);
        assert_int_equal(verdict(&err), WN_E_FORMAT);
        if (n >= 8) {
            assert_non_null(strstr(err.message, "is cut short"));
        }
    }
}

static void every_changed_byte_is_refused(void **state) {
    (void)state;
    static const uint8_t changes[] = {0x01, 0xff};
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (size_t i = 0; i < image.n; i++) {
        for (size_t c = 0; c < sizeof(changes); c++) {
            const uint8_t byte = image.bytes[i] ^ changes[c];
            struct wn_error err;
            assert_int_equal(pwrite(fd, &byte, 1, (off_t)i), 1);
            const wn_status status = verdict(&err);
            if (status != WN_E_FORMAT) {
                fail_msg("byte %zu ^ %02x: status %d", i, changes[c], (int)status);
            }
        }
        assert_int_equal(pwrite(fd, image.bytes + i, 1, (off_t)i), 1);
    }
    close(fd);
    assert_verdict(WN_OK, "");
}

static void longer_files_are_refused(void **state) {
    (void)state;
    image_write(path, image.bytes, image.n + 1);
    assert_refused("1 bytes follow its end");
}

static void damage_is_named(void **state) {
    (void)state;
    static const struct {
        const char *section, *message;
    } cases[] = {
        {"META", "is damaged: the checksum of its section META is wrong"},
        {"SHAPES", "is damaged: the checksum of its section SHAPES is wrong"},
        {"HEADS", "is damaged: the checksum of its section HEADS is wrong"},
        {"TOKENS", "is damaged: the checksum of its section TOKENS is wrong"},
        {"TAILS", "is damaged: the checksum of its section TAILS is wrong"},
        {"PAGES", "is damaged: the checksum of its pages is wrong"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t *byte = image_section(&image, cases[i].section);
        *byte ^= 4;
        image_write(path, image.bytes, image.n);
        assert_refused(cases[i].message);
        *byte ^= 4;
    }
    image.bytes[24] ^= 1;
    image_write(path, image.bytes, image.n);
    assert_refused("the checksum of its header is wrong");
    image.bytes[24] ^= 1;
    image.bytes[56 + 9] ^= 1;
    image_write(path, image.bytes, image.n);
    assert_refused("the checksum of its table is wrong");
}

/* ---- hostile numbers behind sound checksums ---- */

/* Little-endian numbers that overflow something, or are off by one. */
static const uint64_t hostile[] = {
    1,
    2,
    63,
    65,
    4095,
    4097,
    0x7fffffff,
    1u << 31,
    UINT32_MAX,
    UINT64_C(1) << 32,
    INT64_MAX,
    UINT64_C(1) << 63,
    UINT64_MAX,
    UINT64_MAX - 63,
    UINT64_MAX - 4095,
};

/* A number at a place takes each hostile value in turn; sound numbers come out sound. */
static void try_hostile(size_t at, int n_bytes) {
    uint8_t old[8];
    memcpy(old, image.bytes + at, sizeof(old));
    const uint64_t was = cache_get(old, n_bytes);
    for (size_t i = 0; i < 2 * sizeof(hostile) / sizeof(hostile[0]); i++) {
        const uint64_t now = i % 2 == 0 ? hostile[i / 2] : was + hostile[i / 2];
        cache_put(image.bytes + at, now, n_bytes);
        if (cache_get(image.bytes + at, n_bytes) != was) {
            struct wn_error err;
            cache_repair(image.bytes, image.n);
            image_write(path, image.bytes, image.n);
            const wn_status status = verdict(&err);
            if (status != WN_E_FORMAT) {
                fail_msg("%llu at byte %zu: status %d", (unsigned long long)now, at, (int)status);
            }
        }
        memcpy(image.bytes + at, old, sizeof(old));
    }
}

static void hostile_numbers_are_refused(void **state) {
    (void)state;
    try_hostile(12, 4); /* sections */
    try_hostile(16, 8); /* bytes of the file */
    for (int i = 0; i < 6; i++) {
        try_hostile(56 + 32 * (size_t)i + 8, 8);
        try_hostile(56 + 32 * (size_t)i + 16, 8);
    }
    const size_t shapes = (size_t)(image_section(&image, "SHAPES") - image.bytes);
    for (size_t i = 0; i < 10; i++) {
        try_hostile(shapes + 4 * i, 4);
    }
    const size_t heads = (size_t)(image_section(&image, "HEADS") - image.bytes);
    for (size_t i = 0; i < 3; i++) {
        try_hostile(heads + 4 * i, 4);
    }
}

static void a_text_has_as_many_tokens_as_positions(void **state) {
    (void)state;
    cache_put(image.bytes + 32, SMALL_TOKENS - 1, 8);
    assert_repaired_refused("280 bytes of token ids do not fit a text of 69");
    cache_put(image.bytes + 32, (uint64_t)INT32_MAX + 1, 8);
    assert_repaired_refused("a text of 2147483648 tokens is too long");
    cache_put(image.bytes + 32, INT32_MAX, 8);
    cache_repair(image.bytes, image.n);
    image_write(path, image.bytes, image.n);
    assert_verdict(WN_OK, "");
    cache_put(image_section(&image, "TOKENS") + 8, UINT32_MAX, 4);
    assert_repaired_refused("a token id is negative");
}

static void the_description_is_text(void **state) {
    (void)state;
    static const char *const broken[] = {"\xc0\x80", "\xed\xbf\xbf",     "\xe0\x9f\xbf",
                                         "\xff\xff", "\xf0\x8f\xbf\xbf", "\xf5\x80\x80\x80",
                                         "\xc3\x28"};
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        memcpy(image_section(&image, "META"), broken[i], strlen(broken[i]));
        assert_repaired_refused("its description is not UTF-8");
    }
    memcpy(image_section(&image, "META"), "{\0}\0", 4);
    assert_repaired_refused("its description is not UTF-8");
    memcpy(image_section(&image, "META"), "\xf0\x9f\x8c\xbe", 4);
    cache_repair(image.bytes, image.n);
    image_write(path, image.bytes, image.n);
    assert_verdict(WN_OK, "");
}

/* The last position, and a log-weight, of each of the three places where entries stand: the page of
 * head 0 (rows of 2 bytes), the tail of head 1, the tail of layer 1 behind its page. */
static void entries_are_checked(void **state) {
    (void)state;
    uint8_t *page = image_section(&image, "PAGES"), *tails = image_section(&image, "TAILS");
    uint8_t *const weight[] = {page + 256, tails + 12, tails + 36 + 6};
    uint8_t *const last_position[] = {page + 512 + 63 * 4, tails + 24 + 2 * 4, tails + 36 + 10};
    for (int i = 0; i < 3; i++) {
        uint8_t old[4];
        assert_int_equal(cache_get(last_position[i], 4), SMALL_TOKENS - 1);
        const uint32_t positions[] = {SMALL_TOKENS, UINT32_MAX, 1u << 31, INT32_MAX,
                                      /* that of the entry before it */
                                      SMALL_TOKENS - 2};
        memcpy(old, last_position[i], 4);
        for (size_t p = 0; p < sizeof(positions) / sizeof(positions[0]); p++) {
            cache_put(last_position[i], positions[p], 4);
            assert_repaired_refused("has positions that do not ascend within the text");
        }
        memcpy(last_position[i], old, 4);
        /* inf, -inf, a NaN of each kind */
        static const uint32_t weights[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001};
        memcpy(old, weight[i], 4);
        for (size_t w = 0; w < sizeof(weights) / sizeof(weights[0]); w++) {
            cache_put(weight[i], weights[w], 4);
            assert_repaired_refused("has a log-weight that is not finite");
        }
        memcpy(weight[i], old, 4);
    }
    cache_repair(image.bytes, image.n);
    image_write(path, image.bytes, image.n);
    assert_verdict(WN_OK, "");
}

static void sections_do_not_overlap(void **state) {
    (void)state;
    uint8_t *heads = image_row(&image, "HEADS"), *shapes = image_row(&image, "SHAPES");
    uint8_t old[32];
    memcpy(old, heads, 32);
    memcpy(heads + 8, shapes + 8, 8);
    assert_repaired_refused("section 2 is not where it can be");
    memcpy(heads, old, 32);
    memcpy(heads, "META\0\0\0", 8);
    assert_repaired_refused("it has two sections META");
    memcpy(heads, "HEADX\0\0", 8);
    assert_repaired_refused("0 bytes are not the lengths of 3 heads");
    memcpy(heads, old, 32);
    memcpy(shapes, "SHAPEX\0", 8);
    assert_repaired_refused("0 bytes are not the shapes of layers");
}

/* The last head's 65 entries are a page and a tail of 14 bytes. */
static void entries_are_as_many_as_heads_need(void **state) {
    (void)state;
    uint8_t *length = image_section(&image, "HEADS") + 8;
    static const struct {
        uint64_t length;
        const char *message;
    } cases[] = {
        {64, "it has more entries than its heads need"},
        {1, "it has more entries than its heads need"},
        {66, "it has fewer entries than its heads need"},
        {0, "it has more entries than its heads need"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cache_put(length, cases[i].length, 4);
        assert_repaired_refused(cases[i].message);
    }
    cache_put(length, SMALL_TOKENS + 1, 4);
    assert_repaired_refused("head 2 has more entries than the text tokens");
}

static void sections_are_aligned(void **state) {
    (void)state;
    static const struct {
        const char *section;
        size_t n_further;
    } cases[] = {{"PAGES", 64}, {"PAGES", 2048}, {"TAILS", 4}, {"TAILS", 32}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        /* The section and all behind it stand some bytes of 0 later. */
        const size_t n = cases[i].n_further;
        const uint64_t begin = (uint64_t)(image_section(&image, cases[i].section) - image.bytes);
        struct image moved = {.bytes = calloc(1, image.n + n + 1), .n = image.n + n};
        assert_non_null(moved.bytes);
        memcpy(moved.bytes, image.bytes, begin);
        memcpy(moved.bytes + begin + n, image.bytes + begin, image.n - begin);
        for (int row = 0; row < 6; row++) {
            uint8_t *offset = moved.bytes + 56 + 32 * row + 8;
            const uint64_t was = cache_get(offset, 8);
            cache_put(offset, was >= begin ? was + n : was, 8);
        }
        cache_put(moved.bytes + 16, moved.n, 8);
        cache_repair(moved.bytes, moved.n);
        image_write(path, moved.bytes, moved.n);
        image_free(&moved);
        assert_refused(cases[i].section[0] == 'P' ? "section 5 is not where it can be"
                                                  : "section 4 is not where it can be");
    }
}

static void padding_is_zero(void **state) {
    (void)state;
    uint8_t *pages = image_section(&image, "PAGES");
    pages[-1] = 1;
    assert_repaired_refused("section 5 is not where it can be");
    pages[-1] = 0;
    image.bytes[56 + 6 * 32] = 1; /* behind the table */
    assert_repaired_refused("section 0 is not where it can be");
}

/* ---- what a later winnow may add ---- */

/* A file without token ids has room for a further row in its table. */
static void unknown_sections_are_skipped(void **state) {
    (void)state;
    struct wn_store *store = image_small_store(pool);
    struct wn_cache_contents contents = image_small_contents();
    contents.n_token_ids = 0;
    assert_int_equal(wn_cache_file_write(path, store, &contents, NULL), WN_OK);
    wn_store_free(store);
    image_free(&image);
    image = image_read(path);
    const size_t begin = (image.n + 63) / 64 * 64;
    assert_int_equal(cache_get(image.bytes + 12, 4), 5);
    uint8_t *bytes = calloc(1, begin + 10);
    assert_non_null(bytes);
    memcpy(bytes, image.bytes, image.n);
    memcpy(bytes + begin, "whatever\xff", 10);
    image_free(&image);
    image = (struct image){.bytes = bytes, .n = begin + 10};
    uint8_t *row = bytes + 56 + 5 * 32;
    memcpy(row, "LATER\0\0", 8);
    cache_put(row + 8, begin, 8);
    cache_put(row + 16, 10, 8);
    cache_put(bytes + 12, 6, 4);
    cache_put(bytes + 16, image.n, 8);
    cache_repair(bytes, image.n);
    image_write(path, bytes, image.n);
    assert_verdict(WN_OK, "");
    bytes[begin] ^= 1; /* nobody reads it, so nobody minds */
    image_write(path, bytes, image.n);
    assert_verdict(WN_OK, "");
    cache_put(row + 16, 11, 8);
    assert_repaired_refused("section 5 is not where it can be");
    cache_put(row + 16, 9, 8);
    assert_repaired_refused("its sections end before it does");
}

#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, make_file, remove_file)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FILE(what_is_no_file_is_refused),   WITH_FILE(other_files_are_told_apart),
        WITH_FILE(versions_are_told_apart),      WITH_FILE(version_1_has_no_quantised_rows),
        WITH_FILE(every_cut_is_refused),         WITH_FILE(every_changed_byte_is_refused),
        WITH_FILE(longer_files_are_refused),     WITH_FILE(damage_is_named),
        WITH_FILE(hostile_numbers_are_refused),  WITH_FILE(a_text_has_as_many_tokens_as_positions),
        WITH_FILE(the_description_is_text),      WITH_FILE(entries_are_checked),
        WITH_FILE(sections_do_not_overlap),      WITH_FILE(entries_are_as_many_as_heads_need),
        WITH_FILE(sections_are_aligned),         WITH_FILE(padding_is_zero),
        WITH_FILE(unknown_sections_are_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
