/* SPDX-License-Identifier: MIT */
/* Memory as bytes of the store and as the process's resident size. */
#include "eval/targets.h"

enum { N_TOKENS = 8000 };

struct sizes {
    struct wn_session_usage before, after;
    struct wn_compress_report report;
    int64_t resident_before, resident_after;
};

static wn_status compress(struct wn_targets *targets, const struct wn_policy *policy,
                          struct sizes *sizes, struct wn_error *err) {
    struct wn_session *session = NULL;
    double seconds;
    wn_status status = wn_targets_read(targets, policy, N_TOKENS, &session, &seconds, err);
    if (status == WN_OK) {
        wn_session_usage(session, &sizes->before);
        /* What earlier measurements left in the heap is no part of the fall. */
        wn_engine_trim(targets->engine);
        sizes->resident_before = targets->resident_bytes();
        status = wn_session_compress(session, policy, &sizes->report, err);
    }
    if (status == WN_OK) {
        wn_session_usage(session, &sizes->after);
        sizes->resident_after = targets->resident_bytes();
    }
    wn_session_free(session);
    return status;
}

wn_status wn_target_memory(struct wn_targets *targets, struct wn_error *err) {
    struct sizes sizes;
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    wn_targets_note(targets, "memory: %d tokens, keep 20 %%", N_TOKENS);
    const wn_status status = compress(targets, &policy, &sizes, err);
    if (status != WN_OK) {
        return status;
    }
    const double full = (double)sizes.before.kv_bytes, kept = (double)sizes.after.kv_bytes;
    const double protected_share = (double)sizes.report.n_protected / (double)sizes.report.n_tokens;
    wn_targets_add(targets, "kv_bytes_share", kept / full, WN_TARGET_AT_MOST,
                   0.21 + protected_share,
                   "%d tokens: %.0f of %.0f bytes; the target is 21 %% plus the protected entries' "
                   "share of %.4f",
                   N_TOKENS, kept, full, protected_share);
    /* Score accumulators are given back too; they are no part of the saving that is promised. */
    const double fall =
        (double)(sizes.resident_before - sizes.resident_after) - (double)sizes.before.observe_bytes;
    wn_targets_add(targets, "resident_fall_share", fall / (full - kept), WN_TARGET_AT_LEAST, 0.9,
                   "resident size fell from %.1f to %.1f MiB, of which %.1f MiB were score "
                   "accumulators; computed "
                   "saving %.1f MiB",
                   (double)sizes.resident_before / 0x1p20, (double)sizes.resident_after / 0x1p20,
                   (double)sizes.before.observe_bytes / 0x1p20, (full - kept) / 0x1p20);
    struct wn_engine_info info;
    wn_engine_info(targets->engine, &info);
    wn_targets_add(targets, "llama_cache_share",
                   (double)info.backend_cache_bytes / (8192.0 * (double)info.token_bytes),
                   WN_TARGET_AT_MOST, 0.02,
                   "llama.cpp's own unused cache: %lld bytes of a full cache of 8,192 tokens",
                   (long long)info.backend_cache_bytes);
    wn_targets_add(targets, "slack_share", (double)sizes.after.slack_bytes / kept,
                   WN_TARGET_AT_MOST, 0.05,
                   "unused rows of pages in use after compression, over the entries' bytes");
    return WN_OK;
}
