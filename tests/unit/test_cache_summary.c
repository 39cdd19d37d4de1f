/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/cache_summary.h"

#include <string.h>

/* Two layers of 100 tokens: two heads with 10 and 31 entries of 8 bytes, one with none of 16. */
static int heads[] = {2, 1};
static int64_t first[] = {10, 31}, second[] = {0}, bytes[] = {8, 16};
static int64_t *kept[] = {first, second};
static const struct wn_cache_info info = {
    .n_tokens = 100, .n_layers = 2, .n_kv_heads = heads, .n_kept = kept, .entry_bytes = bytes};

static void sums(void **state) {
    (void)state;
    struct wn_cache_summary sum;
    wn_cache_summarize_layer(&info, info.n_tokens, 0, &sum);
    assert_int_equal(sum.n_heads, 2);
    assert_int_equal(sum.n_entries, 41);
    assert_int_equal(sum.n_before, 200);
    assert_int_equal(sum.min_kept, 10);
    assert_int_equal(sum.max_kept, 31);
    assert_true(sum.mean_kept == 20.5 && sum.kept_share == 0.205);
    assert_int_equal(sum.kv_bytes, 328);
    assert_int_equal(sum.kv_before_bytes, 1600);
    wn_cache_summarize(&info, 200, &sum);
    assert_int_equal(sum.n_heads, 3);
    assert_int_equal(sum.min_kept, 0);
    assert_int_equal(sum.max_kept, 31);
    assert_int_equal(sum.kv_bytes, 328);
    assert_int_equal(sum.kv_before_bytes, 6400); /* of a text of twice the positions */
    const struct wn_cache_info empty = {.n_layers = 0};
    wn_cache_summarize(&empty, 0, &sum);
    assert_true(sum.n_heads == 0 && sum.mean_kept == 0 && sum.kept_share == 1);
}

static void table(void **state) {
    (void)state;
    char text[512];
    FILE *out = tmpfile();
    wn_cache_print_layers(&info, info.n_tokens, out);
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = '\0';
    fclose(out);
    assert_string_equal(text, "layer  heads      min       mean      max   share   KV cache\n"
                              "    0      2       10       20.5       31   20.5%  328 bytes\n"
                              "    1      1        0        0.0        0    0.0%    0 bytes\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
