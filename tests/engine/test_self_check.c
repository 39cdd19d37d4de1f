/* SPDX-License-Identifier: MIT */
/* The self-check finds an engine that does not compute what llama.cpp computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/self_check.h"
#include "fixture.h"

/* The engine's geometry as it was probed, for tests that spoil it. */
struct spoilt {
    struct wn_engine *engine;
    struct wn_self_check check;
    struct wn_layer_geometry *geometry;
};

static void open_spoilt(const struct fixture *fixture, struct spoilt *s) {
    *s = (struct spoilt){.engine = fixture->engine};
    const size_t n_bytes = (size_t)s->engine->n_layers * sizeof *s->geometry;
    assert_int_equal(wn_self_check_probe(s->engine, &s->check, NULL), WN_OK);
    s->geometry = malloc(n_bytes);
    assert_non_null(s->geometry);
    memcpy(s->geometry, s->engine->geometry, n_bytes);
}

static void close_spoilt(struct spoilt *s) {
    memcpy(s->engine->geometry, s->geometry, (size_t)s->engine->n_layers * sizeof *s->geometry);
    wn_self_check_free(&s->check);
    free(s->geometry);
}

static void the_short_text_clears_the_native_model(void **state) {
    struct spoilt s;
    open_spoilt(*state, &s);
    assert_int_equal(s.check.n_batch, WN_CHECK_SHORT_BATCH);
    assert_int_equal(wn_self_check_compare(s.engine, &s.check, NULL), WN_OK);
    assert_int_equal(s.check.n_batch, WN_CHECK_SHORT_BATCH);
    assert_true(s.engine->check_kl > 0.0 && s.engine->check_kl < 0.015);
    close_spoilt(&s);
}

/* What a fault does to each layer. */
static void double_the_scale(struct wn_layer_geometry *layer) {
    layer->scale *= 2.0f;
}
static void lower_the_scale(struct wn_layer_geometry *layer) {
    layer->scale *= 0.8f;
}
static void cap_scores(struct wn_layer_geometry *layer) {
    layer->softcap = 5.0f;
}
static void see_the_last_three(struct wn_layer_geometry *layer) {
    layer->n_swa = 3;
}

static void other_attention_is_refused(void **state) {
    static void (*const faults[])(struct wn_layer_geometry *) = {double_the_scale, lower_the_scale,
                                                                 cap_scores, see_the_last_three};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct spoilt s;
        struct wn_error err = {0};
        open_spoilt(*state, &s);
        for (int l = 0; l < s.engine->n_layers; l++)
            faults[i](&s.engine->geometry[l]);
        assert_int_equal(wn_self_check_compare(s.engine, &s.check, &err), WN_E_MODEL);
        assert_non_null(strstr(err.message, "the self-check failed for architecture 'llama'"));
        assert_int_equal(s.check.n_batch, WN_CHECK_LONG_BATCH);
        close_spoilt(&s);
    }
}

/* Logits that are those of another text after the single tokens alone, which the batch does not see:
 * the short text is not sure, and the longer one, which is fed anew, finds nothing. */
static void the_longer_text_decides(void **state) {
    const struct fixture *fixture = *state;
    const size_t n_vocab = (size_t)fixture->n_vocab;
    struct spoilt s;
    open_spoilt(fixture, &s);
    memcpy(s.check.logits + n_vocab, s.check.logits, n_vocab * sizeof(float));
    assert_int_equal(wn_self_check_compare(s.engine, &s.check, NULL), WN_OK);
    assert_int_equal(s.check.n_batch, WN_CHECK_LONG_BATCH);
    assert_true(s.engine->check_kl < 0.05);
    close_spoilt(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_short_text_clears_the_native_model),
        cmocka_unit_test(other_attention_is_refused),
        cmocka_unit_test(the_longer_text_decides),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
