/* SPDX-License-Identifier: MIT */
#include "eval/text_loss.h"

#include "core/metrics.h"

struct step {
    const struct wn_text_loss *text;
    double *loss;
    int64_t first; /* token of the call in progress */
};

static void on_logits(void *user, int64_t i, const float *logits) {
    const struct step *step = user;
    const struct wn_text_loss *text = step->text;
    const int64_t next = step->first + i + 1;
    if (next < text->n) {
        step->loss[next] =
            wn_log_sum_exp(logits, text->n_vocab) - (double)logits[text->tokens[next]];
    }
}

static bool on_progress(void *user, int64_t n_done, int64_t n_total) {
    const struct step *step = user;
    const struct wn_text_loss *text = step->text;
    (void)n_total;
    return text->on_progress == NULL ||
           text->on_progress(text->user, step->first + n_done, text->n);
}

wn_status wn_text_loss_measure(const struct wn_text_loss *text, double *loss,
                               struct wn_error *err) {
    struct step step = {.text = text, .loss = loss};
    const struct wn_feed_options options = {
        .logits = WN_LOGITS_ALL, .on_logits = on_logits, .on_progress = on_progress, .user = &step};
    wn_status status = WN_OK;
    loss[0] = 0.0;
    while (status == WN_OK && step.first < text->n) {
        const int64_t left = text->n - step.first;
        const int64_t n = left < WN_TEXT_LOSS_STEP ? left : WN_TEXT_LOSS_STEP;
        status = wn_session_feed(text->session, text->tokens + step.first, n, &options, err);
        step.first += n;
        if (status == WN_OK && text->on_step != NULL) {
            text->on_step(text->user, step.first);
        }
    }
    return status;
}

double wn_text_loss_sum(const double *loss, int64_t first, int64_t last) {
    double sum = 0.0;
    for (int64_t i = first; i < last; i++) {
        sum += loss[i];
    }
    return sum;
}
