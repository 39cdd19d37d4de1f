/* SPDX-License-Identifier: MIT */
/* What pages hold beside entries, and a long append under a small budget, on a tiny model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/page.h"
#include "zoo.h"

#include <math.h>
#include <string.h>

/* NaN into all rows behind the entries of every head: as halves, log-weights and positions. */
static void poison(struct wn_session *session) {
    const struct wn_store *store = session->store;
    for (int layer = 0; layer < wn_store_n_layers(store); layer++) {
        const struct wn_layer_shape *shape = wn_store_shape(store, layer);
        const struct wn_page_layout *layout = &shape->layout;
        for (int head = 0; head < shape->n_kv_heads; head++) {
            const int64_t n = wn_store_length(store, layer, head);
            const size_t row = (size_t)(n % WN_PAGE_LEN), n_rows = WN_PAGE_LEN - row;
            uint8_t *page = (uint8_t *)wn_store_kv(store, layer, head).pages[(n - 1) / WN_PAGE_LEN];
            assert_int_not_equal(row, 0);
            for (int part = 0; part < 2; part++) {
                const struct wn_page_rows rows = wn_page_rows(layout, (enum wn_page_part)part);
                uint8_t nan[1024];
                memset(nan, 0xff, sizeof nan);
                assert_true(rows.row_bytes <= sizeof nan);
                for (int e = (int)row; e < WN_PAGE_LEN; e++) {
                    wn_page_put_row(&rows, nan, page, e);
                }
            }
            memset(page + layout->b_offset + row * sizeof(float), 0xff, n_rows * sizeof(float));
            memset(page + layout->position_offset + row * sizeof(int32_t), 0xff,
                   n_rows * sizeof(int32_t));
        }
    }
}

static void test_unused_rows_change_no_logit(void **state) {
    (void)state;
    enum { N_PROMPT = 70, N_MORE = 20 };
    struct wn_model *model = zoo_model("llama");
    struct wn_engine *engine = zoo_engine(model, 64);
    struct wn_session *clean = zoo_session(engine), *poisoned = zoo_session(engine);
    int32_t tokens[N_PROMPT + N_MORE];
    zoo_tokens(model, tokens, N_PROMPT + N_MORE);
    assert_int_equal(wn_session_feed(clean, tokens, N_PROMPT, NULL, NULL), WN_OK);
    assert_int_equal(wn_session_feed(poisoned, tokens, N_PROMPT, NULL, NULL), WN_OK);
    /* One after the other, then several at once. */
    for (int i = N_PROMPT; i < N_PROMPT + N_MORE; i += i < N_PROMPT + 10 ? 1 : 10) {
        const int n = i < N_PROMPT + 10 ? 1 : 10;
        poison(poisoned);
        assert_int_equal(wn_session_feed(clean, tokens + i, n, NULL, NULL), WN_OK);
        assert_int_equal(wn_session_feed(poisoned, tokens + i, n, NULL, NULL), WN_OK);
        assert_true(isfinite(wn_session_logits(clean)[0]));
        assert_memory_equal(wn_session_logits(clean), wn_session_logits(poisoned),
                            (size_t)model->n_vocab * sizeof(float));
    }
    wn_session_free(clean);
    wn_session_free(poisoned);
    wn_engine_free(engine);
    wn_model_free(model);
}

static void test_a_long_append_ends_within_the_budget(void **state) {
    (void)state;
    enum { BUDGET = 256, N_TOKENS = 1000 };
    static const enum wn_score scores[] = {WN_SCORE_STREAMING, WN_SCORE_FORESIGHT};
    struct wn_model *model = zoo_model("llama");
    struct wn_engine *engine = zoo_engine(model, 512);
    static int32_t tokens[N_TOKENS];
    zoo_tokens(model, tokens, N_TOKENS);
    for (size_t s = 0; s < sizeof scores / sizeof scores[0]; s++) {
        struct wn_session *session = zoo_session(engine);
        struct wn_standing_budget budget;
        struct wn_session_usage usage;
        wn_standing_budget_default(&budget, BUDGET);
        wn_policy_default(&budget.policy, scores[s]);
        budget.policy.fit = WN_FIT_NONE;
        assert_int_equal(wn_session_set_budget(session, &budget, NULL), WN_OK);
        assert_int_equal(wn_session_feed(session, tokens, N_TOKENS, NULL, NULL), WN_OK);
        wn_session_usage(session, &usage);
        assert_true(usage.n_entries <= (int64_t)BUDGET * usage.n_heads);
        assert_true(usage.n_entries > (int64_t)BUDGET * usage.n_heads / 2);
        assert_int_equal(wn_session_n_tokens(session), N_TOKENS);
        for (int i = 0; i < model->n_vocab; i++) {
            assert_true(isfinite(wn_session_logits(session)[i]));
        }
        wn_session_free(session);
    }
    wn_engine_free(engine);
    wn_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unused_rows_change_no_logit),
        cmocka_unit_test(test_a_long_append_ends_within_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
