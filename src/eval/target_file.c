/* SPDX-License-Identifier: MIT */
/* A compressed document as a file: how soon it is ready, and how many bytes it takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "eval/targets.h"
#include "eval/timing.h"

enum { N_TOKENS = 8000, KEEP_PERCENT = 10 };

struct file_sizes {
    char path[256];
    double read_seconds, load_seconds;
    int64_t file_bytes, kv_bytes;
};

/* A name of our own in the folder for temporary files. */
static wn_status choose_path(struct file_sizes *sizes, struct wn_error *err) {
    const char *folder = getenv("TMPDIR");
    const int n = snprintf(sizes->path, sizeof sizes->path, "%s/winnow-XXXXXX",
                           folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    const int fd = n < (int)sizeof sizes->path ? mkstemp(sizes->path) : -1;
    if (fd < 0) {
        sizes->path[0] = '\0';
        return wn_error_set(err, WN_E_IO, "cannot make a temporary file (check TMPDIR)");
    }
    close(fd);
    return WN_OK;
}

static wn_status compress(struct wn_targets *targets, struct wn_session **out,
                          struct file_sizes *sizes, struct wn_error *err) {
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_FORESIGHT);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = KEEP_PERCENT / 100.0};
    wn_targets_note(targets, "file: %d tokens, keep %d %%", N_TOKENS, KEEP_PERCENT);
    const wn_status status =
        wn_targets_read(targets, &policy, N_TOKENS, out, &sizes->read_seconds, err);
    return status == WN_OK ? wn_session_compress(*out, &policy, NULL, err) : status;
}

static wn_status save(struct wn_targets *targets, const struct wn_session *session,
                      struct file_sizes *sizes, struct wn_error *err) {
    const struct wn_save_options options = {.tokens = targets->all.id, .n_tokens = N_TOKENS};
    struct wn_session_usage usage;
    struct stat info;
    const wn_status status = wn_session_save(session, sizes->path, &options, err);
    if (status != WN_OK) {
        return status;
    }
    if (stat(sizes->path, &info) != 0) {
        return wn_error_set(err, WN_E_IO, "cannot look at %.200s", sizes->path);
    }
    wn_session_usage(session, &usage);
    sizes->file_bytes = (int64_t)info.st_size;
    sizes->kv_bytes = usage.kv_bytes;
    return WN_OK;
}

/* Until a question could be fed; the median of the rounds. */
static wn_status load(struct wn_targets *targets, struct file_sizes *sizes, struct wn_error *err) {
    double seconds[WN_MAX_ROUNDS];
    const int n_rounds = (int)targets->n_rounds;
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < n_rounds; i++) {
        struct wn_session *session = NULL;
        const double start = wn_clock();
        status = wn_session_load(targets->engine, sizes->path, &session, err);
        seconds[i] = wn_clock() - start;
        wn_session_free(session);
    }
    sizes->load_seconds = status == WN_OK ? wn_median(seconds, n_rounds) : 0.0;
    return status;
}

static void report(struct wn_targets *targets, const struct file_sizes *sizes) {
    wn_targets_add(targets, "file_load_ms", 1e3 * sizes->load_seconds, WN_TARGET_AT_MOST, 50.0,
                   "%d tokens, keep %d %%: until a question could be fed; median of %d rounds",
                   N_TOKENS, KEEP_PERCENT, (int)targets->n_rounds);
    wn_targets_add(targets, "file_load_share", sizes->load_seconds / sizes->read_seconds,
                   WN_TARGET_AT_MOST, 0.01, "of the time to read them, %.1f s",
                   sizes->read_seconds);
    wn_targets_add(targets, "file_bytes_ratio", (double)sizes->file_bytes / (double)sizes->kv_bytes,
                   WN_TARGET_AT_MOST, 1.02, "%lld bytes, of entries %lld",
                   (long long)sizes->file_bytes, (long long)sizes->kv_bytes);
}

wn_status wn_target_file(struct wn_targets *targets, struct wn_error *err) {
    struct file_sizes sizes = {.path = ""};
    struct wn_session *session = NULL;
    wn_status status = choose_path(&sizes, err);
    if (status == WN_OK) {
        status = compress(targets, &session, &sizes, err);
    }
    if (status == WN_OK) {
        status = save(targets, session, &sizes, err);
    }
    wn_session_free(session);
    if (status == WN_OK) {
        status = load(targets, &sizes, err);
    }
    if (status == WN_OK) {
        report(targets, &sizes);
    }
    if (sizes.path[0] != '\0') {
        unlink(sizes.path);
    }
    wn_engine_trim(targets->engine);
    return status;
}
