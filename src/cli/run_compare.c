/* SPDX-License-Identifier: MIT */
#include "cli/answer.h"
#include "cli/run.h"
#include "core/metrics.h"

#include <string.h>
#include <sys/mman.h>

/* Few rows at a time: the runtime keeps its buffer for them, which the memory measured afterwards
 * contains. */
enum { COMPARE_CHUNK = 8 };

struct compare {
    int n_vocab;
    float *row; /* [COMPARE_CHUNK][n_vocab]: the full cache's logits of this chunk */
    struct wn_run_comparison *comparison;
};

static void compare_row(const struct compare *compare, const float *full, const float *compressed) {
    struct wn_run_comparison *comparison = compare->comparison;
    comparison->kl_sum += wn_kl_divergence(full, compressed, compare->n_vocab);
    comparison->n_same_top +=
        wn_argmax(full, compare->n_vocab) == wn_argmax(compressed, compare->n_vocab);
    comparison->n_tokens++;
}

static void keep_full_row(void *user, int64_t i, const float *logits) {
    const struct compare *compare = user;
    memcpy(compare->row + (size_t)i * (size_t)compare->n_vocab, logits,
           (size_t)compare->n_vocab * sizeof *logits);
}

static void compare_compressed_row(void *user, int64_t i, const float *logits) {
    const struct compare *compare = user;
    compare_row(compare, compare->row + (size_t)i * (size_t)compare->n_vocab, logits);
}

wn_status wn_run_compare(struct wn_session *full, struct wn_session *compressed,
                         const int32_t *token, int64_t n_tokens, int n_vocab,
                         struct wn_run_comparison *comparison, struct wn_error *err) {
    *comparison = (struct wn_run_comparison){0};
    /* The first token comes from the exact prompt on both sides: there is nothing to compare yet. */
    if (n_tokens <= 1) {
        return WN_OK;
    }
    struct compare compare = {.n_vocab = n_vocab, .comparison = comparison};
    /* Mapped, not allocated: the resident size is measured after this, and the allocator might hold
     * on to it. */
    size_t row_bytes = COMPARE_CHUNK * (size_t)n_vocab * sizeof(float);
    void *mapped =
        mmap(NULL, row_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the comparison (%zu bytes)",
                            row_bytes);
    }
    compare.row = mapped;
    struct wn_feed_options feed = {
        .logits = WN_LOGITS_ALL, .on_progress = wn_answer_continue, .user = &compare};
    wn_status status = WN_OK;
    /* The last token's successor is not part of the answer, so that token need not be fed. */
    for (int64_t first = 0; first < n_tokens - 1 && status == WN_OK; first += COMPARE_CHUNK) {
        int64_t n = n_tokens - 1 - first < COMPARE_CHUNK ? n_tokens - 1 - first : COMPARE_CHUNK;
        feed.on_logits = keep_full_row;
        status = wn_session_feed(full, token + first, n, &feed, err);
        if (status == WN_OK) {
            feed.on_logits = compare_compressed_row;
            status = wn_session_feed(compressed, token + first, n, &feed, err);
        }
    }
    munmap(mapped, row_bytes);
    return status;
}
