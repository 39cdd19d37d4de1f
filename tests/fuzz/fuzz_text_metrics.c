/* SPDX-License-Identifier: MIT */
/* Any two texts, divided at the first NUL byte: scores stay in [0, 1], and a text is like itself. */
#include "eval/text_metrics.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef wn_status pair_metric(struct wn_text_view prediction, struct wn_text_view reference,
                              double *score, struct wn_error *err);

static double score_of(pair_metric *metric, struct wn_text_view a, struct wn_text_view b) {
    double score = NAN;
    assert(metric(a, b, &score, NULL) == WN_OK);
    assert(score >= 0.0 && score <= 1.0);
    return score;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static pair_metric *const metrics[] = {wn_metric_token_f1, wn_metric_rouge_l, wn_metric_count,
                                           wn_metric_retrieval, wn_metric_code_similarity};
    if (size == 0) {
        return 0;
    }
    const char *text = (const char *)data;
    const char *end = memchr(text, '\0', size);
    const size_t n = end != NULL ? (size_t)(end - text) : size;
    const struct wn_text_view a = {text, n}, b = {text + n, size - n};
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        score_of(metrics[m], a, b);
    }
    const double f1 = score_of(wn_metric_token_f1, a, a);
    assert(f1 == 0.0 || f1 == 1.0);
    const double rouge = score_of(wn_metric_rouge_l, a, a);
    assert(rouge == 0.0 || rouge > 1.0 - 1e-8);
    struct wn_codepoints decoded = {0};
    double ratio = NAN;
    assert(wn_codepoints_decode(a, &decoded, NULL) == WN_OK);
    assert(wn_metric_sequence_ratio(decoded, decoded, &ratio, NULL) == WN_OK);
    assert(ratio >= 0.0 && ratio <= 1.0);
    free(decoded.at);
    return 0;
}
