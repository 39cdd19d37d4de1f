/* SPDX-License-Identifier: MIT */
#include "core/sort_key.h"
#include "winnow_core.h"

#include <assert.h>
#include <string.h>

/* ---- top-k ---- */

/*
 * The k-th largest key, found by its bytes from the highest down: each round counts the byte's
 * values among the candidates, finds the one that holds the k-th and leaves only its candidates.
 * Linear on any input. *n_equal is how many candidates with just this key belong to the k largest.
 */
static uint64_t kth_largest_key(const double *score, int64_t first, int64_t n, int64_t k,
                                int32_t *candidate, int64_t *n_equal) {
    for (int64_t i = 0; i < n; i++) {
        candidate[i] = (int32_t)(first + i);
    }
    uint64_t key = 0;
    int64_t wanted = k;
    for (int shift = 56; shift >= 0; shift -= 8) {
        int64_t count[256] = {0};
        for (int64_t i = 0; i < n; i++) {
            count[wn_sort_key(score[candidate[i]]) >> shift & 0xff]++;
        }
        uint64_t byte = 255;
        while (count[byte] < wanted) {
            wanted -= count[byte];
            byte--;
        }
        key |= byte << shift;
        int64_t n_left = 0;
        for (int64_t i = 0; i < n; i++) {
            if ((wn_sort_key(score[candidate[i]]) >> shift & 0xff) == byte) {
                candidate[n_left++] = candidate[i];
            }
        }
        n = n_left;
    }
    *n_equal = wanted;
    return key;
}

void wn_select_topk(const double *score, int64_t first, int64_t last, int64_t k, int32_t *idx,
                    int32_t *scratch) {
    assert(0 <= k && k <= last - first && last <= INT32_MAX);
    if (k == 0) {
        return;
    }
    int64_t n_equal;
    const uint64_t threshold = kth_largest_key(score, first, last - first, k, scratch, &n_equal);
    int64_t n_taken = 0;
    for (int64_t i = first; i < last && n_taken < k; i++) {
        const uint64_t key = wn_sort_key(score[i]);
        if (key > threshold || (key == threshold && n_equal-- > 0)) {
            idx[n_taken++] = (int32_t)i;
        }
    }
}

/* ---- sampling ---- */

_Static_assert(sizeof(double) == sizeof(int64_t), "suffix sums are kept in the array of counts");

/*
 * Entry i takes Binomial(draws left, pi_i / sum_{j >= i} pi_j) of the draws. Its suffix sum waits
 * in count[i], which saves an array. The sums run from the end, so that the last entry with pi > 0
 * has exactly the ratio 1 and takes what is left.
 */
void wn_sample_counts(const double *pi, int64_t n, int64_t m, uint64_t seed, int layer, int head,
                      int64_t *count) {
    double suffix = 0.0;
    for (int64_t i = n - 1; i >= 0; i--) {
        suffix += pi[i];
        memcpy(&count[i], &suffix, sizeof suffix);
    }
    int64_t left = m;
    for (int64_t i = 0; i < n; i++) {
        memcpy(&suffix, &count[i], sizeof suffix);
        count[i] = 0;
        if (left > 0 && pi[i] > 0.0) {
            struct wn_rng rng;
            wn_rng_seed(&rng, seed, (uint64_t)layer, (uint64_t)head, (uint64_t)i);
            count[i] = wn_rng_binomial(&rng, left, pi[i] / suffix);
            left -= count[i];
        }
    }
}
