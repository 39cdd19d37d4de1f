/* SPDX-License-Identifier: MIT */
/* Losses of a text that is fed in steps, against the probabilities of its tokens one by one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/metrics.h"
#include "eval/text_loss.h"
#include "fixture.h"

/* Two steps and a part of a third. */
enum { N = 2 * WN_TEXT_LOSS_STEP + 21 };

struct notes {
    int64_t step[8];
    int n_steps;
    int64_t stop_at; /* tokens after which to stop; 0: never */
};

static bool on_progress(void *user, int64_t n_done, int64_t n_total) {
    const struct notes *notes = user;
    assert_int_equal(n_total, N);
    return notes->stop_at == 0 || n_done < notes->stop_at;
}

static void on_step(void *user, int64_t n_done) {
    struct notes *notes = user;
    notes->step[notes->n_steps++] = n_done;
}

static struct wn_text_loss text_of(const struct fixture *fixture, struct notes *notes) {
    struct wn_text_loss text = {.tokens = fixture->text.id,
                                .n = N,
                                .n_vocab = fixture->n_vocab,
                                .on_progress = on_progress,
                                .on_step = on_step,
                                .user = notes};
    assert_int_equal(wn_session_create(fixture->engine, &text.session, NULL), WN_OK);
    return text;
}

/* loss[i] from the logits after token i - 1, one token at a time. Batched products round in another
 * order than single ones. */
static void losses_are_those_of_the_tokens(void **state) {
    const struct fixture *fixture = *state;
    struct notes notes = {0};
    struct wn_text_loss text = text_of(fixture, &notes);
    struct wn_session *session = NULL;
    double loss[N];
    double *p = malloc((size_t)fixture->n_vocab * sizeof *p);
    assert_non_null(p);
    assert_int_equal(wn_text_loss_measure(&text, loss, NULL), WN_OK);
    assert_true(loss[0] == 0.0);
    assert_int_equal(wn_session_create(fixture->engine, &session, NULL), WN_OK);
    for (int i = 1; i < N; i++) {
        fixture_feed(session, &fixture->text.id[i - 1], 1);
        wn_softmax(wn_session_logits(session), fixture->n_vocab, p);
        assert_true(fabs(loss[i] + log(p[fixture->text.id[i]])) < 0.05);
    }
    double sum = 0.0;
    for (int i = 3; i < 100; i++)
        sum += loss[i];
    assert_true(wn_text_loss_sum(loss, 3, 100) == sum);
    assert_true(wn_text_loss_sum(loss, 7, 7) == 0.0);
    assert_int_equal(notes.n_steps, 3);
    assert_int_equal(notes.step[0], WN_TEXT_LOSS_STEP);
    assert_int_equal(notes.step[1], 2 * WN_TEXT_LOSS_STEP);
    assert_int_equal(notes.step[2], N);
    free(p);
    wn_session_free(session);
    wn_session_free(text.session);
}

static void a_stop_ends_it(void **state) {
    const struct fixture *fixture = *state;
    struct notes notes = {.stop_at = WN_TEXT_LOSS_STEP + 1};
    struct wn_text_loss text = text_of(fixture, &notes);
    double loss[N];
    assert_int_equal(wn_text_loss_measure(&text, loss, NULL), WN_E_ABORTED);
    assert_int_equal(notes.step[0], WN_TEXT_LOSS_STEP);
    assert_true(wn_session_n_tokens(text.session) < N);
    wn_session_free(text.session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_the_tokens),
        cmocka_unit_test(a_stop_ends_it),
    };
    return cmocka_run_group_tests(tests, fixture_open_tiny, fixture_close);
}
