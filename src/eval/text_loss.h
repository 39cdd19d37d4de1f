/* SPDX-License-Identifier: MIT */
/* What each token of a text costs a model that reads it: teacher-forced losses, for perplexities. */
#ifndef WN_EVAL_TEXT_LOSS_H
#define WN_EVAL_TEXT_LOSS_H

#include "winnow.h"

/* Tokens fed at a time. What a standing budget drops depends on it: a short step is near to what a
 * text that is written does, a long one is quick. */
enum { WN_TEXT_LOSS_STEP = 64 };

struct wn_text_loss {
    struct wn_session *session; /* fed to the end; without tokens so far */
    const int32_t *tokens;      /* [n] */
    int64_t n;
    int n_vocab;
    /* Polled within steps, as that of a feed, with tokens of the whole text; false stops with
     * WN_E_ABORTED. NULL: none. */
    bool (*on_progress)(void *user, int64_t n_done, int64_t n_total);
    /* After each step. NULL: none. */
    void (*on_step)(void *user, int64_t n_done);
    void *user;
};

/*
 * Feeds the text and writes loss double [n]: -ln p(token i | those before), in nat; 0 for token 0, of
 * which nothing is known, and NaN where logits are not finite. Fails as wn_session_feed does.
 */
wn_status wn_text_loss_measure(const struct wn_text_loss *text, double *loss, struct wn_error *err);
/* Sum of the losses of tokens [first, last). */
double wn_text_loss_sum(const double *loss, int64_t first, int64_t last);

#endif
