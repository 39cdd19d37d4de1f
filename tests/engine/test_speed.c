/* SPDX-License-Identifier: MIT */
/* The speed benchmark: what its rows are made of, and that it measures what is missing, on a tiny
 * model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "eval/speed.h"
#include "zoo.h"

#include <math.h>
#include <string.h>

static struct wn_speed_plan plan_of(int n_lengths) {
    return (struct wn_speed_plan){.length = {64, 96},
                                  .n_lengths = n_lengths,
                                  .keep = {1.0, 0.5},
                                  .n_keeps = 2,
                                  .n_types = 1,
                                  .threads = {1},
                                  .n_threads = 1,
                                  .n_rounds = 3,
                                  .shard = {0, 1}};
}

static struct wn_results *new_results(void) {
    struct wn_results *results = NULL;
    json_t *settings = json_object();
    const struct wn_results_header header = {
        .benchmark = "speed", .model_description = "tiny", .settings = settings};
    assert_int_equal(wn_results_open(NULL, &header, &results, NULL), WN_OK);
    json_decref(settings);
    return results;
}

/* ---- rows ---- */

static const struct wn_speed_race race = {.threads = 1, .type = 0, .length = 64};

static json_t *prefill_values(void) {
    return json_pack("{s:[f,f,f], s:[f,f,f], s:[f,f,f], s:[f,f,f], s:n}", "seconds", 2.0, 1.0, 4.0,
                     "observed_seconds", 3.0, 3.0, 3.0, "llama_flash_seconds", 4.0, 4.0, 4.0,
                     "llama_plain_seconds", 8.0, 8.0, 8.0, "llama_q8_0_seconds");
}

static json_t *decode_values(void) {
    return json_pack("{s:i, s:[f,f,f], s:[f,f,f], s:[f,f,f], s:[f,f,f], s:[f,f,f], s:f, s:i, s:i, "
                     "s:i, s:i}",
                     "tokens", 16, "seconds", 0.5, 1.0, 2.0, "llama_flash_seconds", 1.0, 4.0, 3.0,
                     "llama_plain_seconds", 2.0, 2.0, 8.0, "llama_q8_0_seconds", 4.0, 4.0, 4.0,
                     "bandwidth_bytes_per_second", 1e9, 2e9, 3e9, "compress_seconds", 1.0,
                     "weight_bytes", 100000000, "kv_bytes", 25000000, "resident_bytes", 7,
                     "entries", 9);
}

static void add(struct wn_results *results, double keep, json_t *values) {
    struct wn_speed_cell cell;
    assert_int_equal(wn_results_add(results, wn_speed_cell_name(&race, keep, &cell), values, NULL),
                     WN_OK);
}

static void test_rows(void **state) {
    (void)state;
    struct wn_results *results = new_results();
    struct wn_speed_row row;
    add(results, 0, prefill_values());
    assert_false(wn_speed_row_read(results, &race, 0.5, &row));
    add(results, 0.5, decode_values());
    add(results, 1, decode_values());
    assert_true(wn_speed_row_read(results, &race, 0.5, &row));
    /* Reading, a second of compressing included: 4 s, each round. */
    assert_true(row.prefill == 64.0 / 4.0);
    assert_true(row.prefill_spread == 0);
    assert_true(row.prefill_ratio == 1.0);
    assert_true(row.prefill_peer[WN_PEER_FLASH] == 16 && row.prefill_peer[WN_PEER_PLAIN] == 8);
    assert_true(isnan(row.prefill_peer[WN_PEER_Q8_0]));
    /* Decoding: medians, and the median of the rounds' ratios 2, 2 and 1.5. */
    assert_true(row.decode == 16);
    assert_true(row.decode_spread == 1.5);
    assert_true(row.decode_ratio == 2.0);
    assert_true(row.decode_peer[WN_PEER_FLASH] == 16.0 / 3.0);
    assert_true(row.decode_peer[WN_PEER_Q8_0] == 4);
    assert_true(fabs(row.read_share - 16 * 125e6 / 2e9) < 1e-12);
    assert_true(row.kv_bytes == 25000000 && row.resident_bytes == 7 && row.n_entries == 9);
    /* Everything kept: what was just read, in the rounds' median of 2 s. */
    assert_true(wn_speed_row_read(results, &race, 1, &row));
    assert_true(row.prefill == 32 && row.prefill_spread == 1.5 && row.prefill_ratio == 2);
    wn_results_close(results);
}

/* Files are not trusted: each of these members is needed as it is. */
static void test_rows_of_other_values(void **state) {
    (void)state;
    static const char *const keys[] = {"tokens",
                                       "seconds",
                                       "llama_flash_seconds",
                                       "llama_plain_seconds",
                                       "llama_q8_0_seconds",
                                       "bandwidth_bytes_per_second"};
    static const char *const others[] = {"[]", "[1,2]", "[1,2,0]", "[1,2,-1]", "[1,2,\"3\"]", "{}"};
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        for (size_t o = 0; o < sizeof others / sizeof others[0]; o++) {
            struct wn_results *results = new_results();
            struct wn_speed_row row;
            json_t *values = decode_values();
            json_object_set_new(values, keys[k], json_loads(others[o], 0, NULL));
            add(results, 0, prefill_values());
            add(results, 1, values);
            assert_false(wn_speed_row_read(results, &race, 1, &row));
            wn_results_close(results);
        }
    }
}

/* ---- measuring ---- */

struct watch {
    int64_t n_done, n_total, stop_at; /* stop_at: 0: never */
    int n_races;
};

static bool on_progress(void *user, int64_t n_done, int64_t n_total) {
    struct watch *watch = user;
    assert_true(n_done >= watch->n_done && n_done <= n_total);
    assert_true(watch->n_total == 0 || watch->n_total == n_total);
    watch->n_done = n_done;
    watch->n_total = n_total;
    return watch->stop_at == 0 || n_done < watch->stop_at;
}

static void on_race(void *user, const struct wn_speed_race *at) {
    struct watch *watch = user;
    assert_int_equal(at->threads, 1);
    watch->n_races++;
}

static int64_t no_bytes(void) {
    return 0;
}

struct bench {
    struct wn_model *model;
    int32_t tokens[128];
    struct wn_speed_plan plan;
    struct wn_results *results;
    struct watch watch;
    struct wn_speed speed;
};

static void open_bench(struct bench *bench, int n_lengths) {
    *bench = (struct bench){.model = zoo_model("llama"), .plan = plan_of(n_lengths)};
    zoo_tokens(bench->model, bench->tokens, 128);
    bench->results = new_results();
    bench->speed = (struct wn_speed){.model = bench->model,
                                     .tokens = bench->tokens,
                                     .plan = &bench->plan,
                                     .results = bench->results,
                                     .resident_bytes = no_bytes,
                                     .on_progress = on_progress,
                                     .on_race = on_race,
                                     .user = &bench->watch};
}

static void close_bench(struct bench *bench) {
    wn_results_close(bench->results);
    wn_model_free(bench->model);
}

static void measure(struct bench *bench, wn_status expected) {
    struct wn_error err = {0};
    bench->watch = (struct watch){.stop_at = bench->watch.stop_at};
    const wn_status status = wn_speed_measure(&bench->speed, &err);
    if (status != expected) {
        fail_msg("status %d, %s", (int)status, err.message);
    }
}

static void test_measures_each_cell_once(void **state) {
    (void)state;
    struct bench bench;
    open_bench(&bench, 2);
    assert_int_equal(wn_speed_n_missing(&bench.speed), 2 * 3);
    measure(&bench, WN_OK);
    assert_int_equal(bench.watch.n_races, 2);
    /* Five readers in three rounds, and three peers and two shares in four of 16 tokens. */
    assert_true(bench.watch.n_total == 3 * 5 * (64 + 96) + 2 * 4 * 5 * 16);
    assert_true(bench.watch.n_done == bench.watch.n_total);
    assert_int_equal(wn_speed_n_missing(&bench.speed), 0);
    assert_int_equal(wn_results_n(bench.results), 6);
    for (int i = 0; i < 2; i++) {
        const struct wn_speed_race at = wn_speed_race_at(&bench.plan, i);
        struct wn_speed_row all, half;
        assert_true(wn_speed_row_read(bench.results, &at, 1, &all));
        assert_true(wn_speed_row_read(bench.results, &at, 0.5, &half));
        assert_true(all.prefill > 0 && all.decode > 0 && all.bandwidth > 0);
        /* Entries of every head, and half of them. */
        const int64_t n_heads = all.n_entries / at.length;
        assert_true(n_heads > 0 && all.n_entries == n_heads * at.length);
        assert_true(half.n_entries == all.n_entries / 2);
        assert_true(half.kv_bytes == all.kv_bytes / 2);
    }
    measure(&bench, WN_OK);
    assert_int_equal(bench.watch.n_races, 0);
    close_bench(&bench);
}

/* Stopped in the second race the first one's cells stay, and measuring goes on with the others. A share
 * that is new is measured alone. */
static void test_goes_on(void **state) {
    (void)state;
    struct bench bench;
    struct wn_speed_cell cell;
    open_bench(&bench, 2);
    bench.watch.stop_at = 3 * 5 * 64 + 4 * 5 * 16 + 100;
    measure(&bench, WN_E_ABORTED);
    assert_int_equal(wn_results_n(bench.results), 3);
    const struct wn_speed_race first = wn_speed_race_at(&bench.plan, 0);
    json_t *before =
        json_copy((json_t *)wn_results_find(bench.results, wn_speed_cell_name(&first, 0, &cell)));
    bench.watch.stop_at = 0;
    measure(&bench, WN_OK);
    assert_int_equal(bench.watch.n_races, 1);
    assert_int_equal(wn_results_n(bench.results), 6);
    assert_true(
        json_equal(before, wn_results_find(bench.results, wn_speed_cell_name(&first, 0, &cell))));
    json_decref(before);
    bench.plan.keep[bench.plan.n_keeps++] = 0.25;
    assert_int_equal(wn_speed_n_missing(&bench.speed), 2);
    measure(&bench, WN_OK);
    /* The texts are read once, untimed. */
    assert_true(bench.watch.n_total == 5 * (64 + 96) + 2 * 4 * 4 * 16);
    assert_int_equal(wn_results_n(bench.results), 8);
    close_bench(&bench);
}

static void test_shards(void **state) {
    (void)state;
    struct bench bench;
    struct wn_speed_cell cell;
    open_bench(&bench, 2);
    bench.plan.n_keeps = 1;
    bench.plan.shard = (struct wn_shard){1, 2};
    assert_int_equal(wn_speed_n_missing(&bench.speed), 2);
    measure(&bench, WN_OK);
    assert_int_equal(bench.watch.n_races, 1);
    const struct wn_speed_race second = wn_speed_race_at(&bench.plan, 1);
    assert_non_null(wn_results_find(bench.results, wn_speed_cell_name(&second, 0, &cell)));
    assert_int_equal(wn_results_n(bench.results), 2);
    close_bench(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rows_of_other_values),
        cmocka_unit_test(test_measures_each_cell_once),
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
