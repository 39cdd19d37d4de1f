/* SPDX-License-Identifier: MIT */
/*
 * The figures the project promises, measured: each is a row "name measured target ok|short". A
 * measurement is a function that adds one or several rows.
 */
#ifndef WN_EVAL_TARGETS_H
#define WN_EVAL_TARGETS_H

#include "winnow.h"

enum wn_target_kind {
    WN_TARGET_AT_MOST,
    WN_TARGET_AT_LEAST,
    WN_TARGET_NONE /* a figure without a promise, for comparison */
};

struct wn_target_row {
    const char *name;
    double measured, target;
    enum wn_target_kind kind;
    const char *detail; /* one line: what the figure was made of */
};

/* Most lengths of needle samples in one run. */
enum { WN_TARGET_LENGTHS_MAX = 8 };

struct wn_targets {
    struct wn_model *model;
    struct wn_engine *engine;
    int n_vocab, n_threads;
    int64_t n_rounds;                       /* of timed comparisons; odd */
    int64_t n_samples;                      /* of each needle task and length; 1 .. 100 */
    int64_t lengths[WN_TARGET_LENGTHS_MAX]; /* of needle samples, tokens */
    int n_lengths;
    const char *texts;        /* folder of our own texts */
    const char *reference;    /* folder of reference data, or NULL */
    struct wn_tokens text[8]; /* our own texts, tokenised */
    int n_texts;
    struct wn_tokens all; /* all of them, one after the other, repeated beyond 8,192 tokens */
    /* Called with every row as it is measured, and with what is being measured now. */
    void (*on_row)(void *user, const struct wn_target_row *row);
    void (*on_note)(void *user, const char *note);
    int64_t (*resident_bytes)(void);
    void *user;
};

/* Reads and tokenises the texts. model, engine and texts are set by the caller. */
wn_status wn_targets_open(struct wn_targets *targets, struct wn_error *err);
void wn_targets_close(struct wn_targets *targets);

struct wn_target_group {
    const char *name; /* "graft", "speed", ... : what --only takes */
    const char *summary;
    wn_status (*measure)(struct wn_targets *targets, struct wn_error *err);
    bool only_named; /* figures without a promise: measured when asked for by name */
};
/* The groups in order, and their number. */
const struct wn_target_group *wn_target_groups(int *n);

/* Makes a session that observes for the policy (NULL: for none) and feeds it the first n tokens of all
 * texts; seconds: of feeding. Free the session whatever the status. */
wn_status wn_targets_read(const struct wn_targets *targets, const struct wn_policy *policy,
                          int64_t n, struct wn_session **out, double *seconds,
                          struct wn_error *err);

/* A row; detail is printf-formatted. Used by the groups. */
void wn_targets_add(struct wn_targets *targets, const char *name, double measured,
                    enum wn_target_kind kind, double target, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
void wn_targets_note(struct wn_targets *targets, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

wn_status wn_target_graft(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_decode(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_kernel(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_batch(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_file(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_generate(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_standing(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_prefill(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_stores(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_memory(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_scoring(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_foresight(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_study(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_methods(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_sweep(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_needles(struct wn_targets *targets, struct wn_error *err);
wn_status wn_target_quality(struct wn_targets *targets, struct wn_error *err);

#endif
