/* SPDX-License-Identifier: MIT */
/* KL of the policies against the full cache, on reference texts given as token ids (beside the
 * values of a 32-bit float reference) and on our own texts. */
#include "eval/fidelity.h"
#include "eval/targets.h"
#include "eval/text_file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SEEDS = 3, N_SHARES = 2, OWN_PREFIX = 1280, OWN_SCORED = 64, N_OWN = 5 };
static const double shares[N_SHARES] = {0.20, 0.10};

/* Sums over texts of one policy's KL at each share. */
struct tally {
    const char *name;      /* in row names */
    const char *reference; /* method in the reference table, or NULL */
    struct wn_policy policy;
    int n_seeds;
    double kl[N_SHARES];
};

enum { MIN_H, SNAPKV, H2O_MEAN, FORESIGHT, FORESIGHT_FIT, REHEARSAL, N_TALLIES };

static void start_tallies(struct tally *tallies) {
    memset(tallies, 0, N_TALLIES * sizeof *tallies);
    tallies[MIN_H].name = "min_h";
    tallies[MIN_H].n_seeds = N_SEEDS;
    wn_policy_default(&tallies[MIN_H].policy, WN_SCORE_MIN_H);
    tallies[FORESIGHT].name = "foresight";
    wn_policy_default(&tallies[FORESIGHT].policy, WN_SCORE_FORESIGHT);
    tallies[FORESIGHT].policy.fit = WN_FIT_NONE;
    tallies[FORESIGHT_FIT].name = "foresight_fit";
    tallies[FORESIGHT_FIT].policy = tallies[FORESIGHT].policy;
    tallies[FORESIGHT_FIT].policy.fit = WN_FIT_BOTH;
    tallies[REHEARSAL].name = "rehearsal";
    wn_policy_default(&tallies[REHEARSAL].policy, WN_SCORE_REHEARSAL);
    for (int i = FORESIGHT; i <= REHEARSAL; i++) {
        tallies[i].n_seeds = 1;
    }
    tallies[SNAPKV].name = "snapkv";
    tallies[SNAPKV].reference = "B:snapkv";
    wn_policy_default(&tallies[SNAPKV].policy, WN_SCORE_SNAPKV);
    tallies[H2O_MEAN].name = "h2o_mean";
    tallies[H2O_MEAN].reference = "B:observed";
    wn_policy_default(&tallies[H2O_MEAN].policy, WN_SCORE_H2O_MEAN);
    /* The reference protects nothing beyond the methods' own windows. */
    for (int i = SNAPKV; i <= H2O_MEAN; i++) {
        tallies[i].n_seeds = 1;
        tallies[i].policy.sink = 0;
        tallies[i].policy.recent = 0;
    }
}

static wn_status tally_text(struct wn_targets *targets, const int32_t *tokens, int64_t n_prefix,
                            int64_t n_scored, struct tally *tallies, int n_tallies,
                            struct wn_error *err) {
    struct wn_policy policies[N_TALLIES];
    for (int i = 0; i < n_tallies; i++) {
        policies[i] = tallies[i].policy;
    }
    struct wn_fidelity *fidelity = NULL;
    const struct wn_fidelity_options options = {.engine = targets->engine,
                                                .n_vocab = targets->n_vocab,
                                                .tokens = tokens,
                                                .n_prefix = n_prefix,
                                                .n_scored = n_scored};
    wn_status status = wn_fidelity_create(&options, policies, n_tallies, &fidelity, err);
    for (int i = 0; i < n_tallies && status == WN_OK; i++) {
        status = wn_fidelity_sweep(fidelity, &tallies[i].policy, shares, N_SHARES,
                                   tallies[i].n_seeds, tallies[i].kl, err);
    }
    wn_fidelity_free(fidelity);
    return status;
}

/* ---- reference texts ---- */

struct reference_text {
    int32_t *tokens;
    int64_t n_prefix, n_scored;
};

static wn_status read_ids(const json_t *list, int32_t *out, int n_vocab) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_int_t id = json_integer_value(json_array_get(list, i));
        if (id < 0 || id >= n_vocab) {
            return WN_E_FORMAT;
        }
        out[i] = (int32_t)id;
    }
    return WN_OK;
}

static wn_status read_reference_text(const struct wn_targets *targets, const char *name,
                                     struct reference_text *out, struct wn_error *err) {
    char path[4096];
    json_error_t detail;
    snprintf(path, sizeof path, "%s/texts/%s.json", targets->reference, name);
    json_t *root = json_load_file(path, 0, &detail);
    const json_t *prefix = json_object_get(root, "context");
    const json_t *scored = json_object_get(root, "continuation");
    const size_t n_prefix = json_array_size(prefix), n_scored = json_array_size(scored);
    wn_status status = n_prefix > 0 && n_scored > 0 ? WN_OK : WN_E_FORMAT;
    int32_t *tokens = malloc((n_prefix + n_scored + 1) * sizeof *tokens);
    if (status == WN_OK && tokens == NULL) {
        status = WN_E_MEMORY;
    }
    if (status == WN_OK) {
        status = read_ids(prefix, tokens, targets->n_vocab);
    }
    if (status == WN_OK) {
        status = read_ids(scored, tokens + n_prefix, targets->n_vocab);
    }
    json_decref(root);
    if (status != WN_OK) {
        free(tokens);
        return wn_error_set(err, status,
                            "%s does not hold token ids of a context and a continuation", path);
    }
    *out = (struct reference_text){tokens, (int64_t)n_prefix, (int64_t)n_scored};
    return WN_OK;
}

/* Mean over texts of a method's KL in the reference table; NaN when it has none. */
static double reference_mean(const char *table, const char *method, double share) {
    double sum = 0.0;
    int n = 0;
    for (const char *line = table; line != NULL && *line != '\0';) {
        char row_method[64];
        double row_share, kl;
        if (sscanf(line, "%*[^,],%63[^,],%lf,%lf", row_method, &row_share, &kl) == 3 &&
            strcmp(row_method, method) == 0 && fabs(row_share - share) < 1e-9) {
            sum += kl;
            n++;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return n > 0 ? sum / n : NAN;
}

/* limits: the most that the KL may be at each share; NULL: no promise. */
static void report_tally(struct wn_targets *targets, const struct tally *tally, const char *texts,
                         int n_texts, int64_t n_scored, const double *limits) {
    for (int s = 0; s < N_SHARES; s++) {
        char name[64];
        snprintf(name, sizeof name, "quality_%s_keep%.0f_%s", tally->name, shares[s] * 100, texts);
        wn_targets_add(targets, name, tally->kl[s] / n_texts,
                       limits != NULL ? WN_TARGET_AT_MOST : WN_TARGET_NONE,
                       limits != NULL ? limits[s] : 0.0,
                       "mean KL(full || compressed) in nat, %d texts, %d seeds, %lld tokens each",
                       n_texts, tally->n_seeds, (long long)n_scored);
    }
}

static void report_reference(struct wn_targets *targets, const struct tally *tallies,
                             const char *table, int n_texts) {
    static const struct {
        int tally;
        double limits[N_SHARES];
    } promises[] = {
        {MIN_H, {0.22, 0.36}},
        {FORESIGHT, {0.028, 0.080}},
        {FORESIGHT_FIT, {0.020, 0.062}},
        {REHEARSAL, {0.010, 0.032}},
    };
    for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) {
        report_tally(targets, &tallies[promises[i].tally], "reference_texts", n_texts, 64,
                     promises[i].limits);
    }
    for (int i = SNAPKV; i <= H2O_MEAN; i++) {
        for (int s = 0; s < N_SHARES; s++) {
            char name[64];
            const double expected = reference_mean(table, tallies[i].reference, shares[s]);
            const double measured = tallies[i].kl[s] / n_texts;
            snprintf(name, sizeof name, "quality_%s_keep%.0f_deviation", tallies[i].name,
                     shares[s] * 100);
            wn_targets_add(targets, name, fabs(measured / expected - 1.0), WN_TARGET_AT_MOST, 0.15,
                           "KL %.4f nat, reference %.4f, %d texts", measured, expected, n_texts);
        }
    }
}

static wn_status measure_reference(struct wn_targets *targets, struct wn_error *err) {
    static const char *const names[] = {"code", "dialog", "man", "prose", "recall"};
    enum { N_NAMES = sizeof names / sizeof names[0] };
    struct tally tallies[N_TALLIES];
    struct wn_text_file table = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s/texts/reference_kl.csv", targets->reference);
    wn_status status = wn_text_file_read(path, &table, err);
    start_tallies(tallies);
    for (int i = 0; status == WN_OK && i < N_NAMES; i++) {
        struct reference_text text = {0};
        wn_targets_note(targets, "quality: reference text %s", names[i]);
        status = read_reference_text(targets, names[i], &text, err);
        if (status == WN_OK) {
            status = tally_text(targets, text.tokens, text.n_prefix, text.n_scored, tallies,
                                N_TALLIES, err);
        }
        free(text.tokens);
    }
    if (status == WN_OK) {
        report_reference(targets, tallies, table.bytes, N_NAMES);
    }
    wn_text_file_free(&table);
    return status;
}

/* ---- our own texts ---- */

/* How many times closer to the full cache than min-h. */
static void report_gain(struct wn_targets *targets, const struct tally *tallies, int i,
                        const double *least) {
    for (int s = 0; s < N_SHARES; s++) {
        char name[64];
        snprintf(name, sizeof name, "quality_%s_keep%.0f_gain", tallies[i].name, shares[s] * 100);
        wn_targets_add(targets, name, tallies[MIN_H].kl[s] / tallies[i].kl[s], WN_TARGET_AT_LEAST,
                       least[s], "KL of min-h sampled over that of %s, %d own texts",
                       tallies[i].name, N_OWN);
    }
}

static wn_status measure_own(struct wn_targets *targets, struct wn_error *err) {
    struct tally tallies[N_TALLIES];
    start_tallies(tallies);
    for (int i = 0; i < N_OWN; i++) {
        wn_targets_note(targets, "quality: own text %d of %d", i + 1, N_OWN);
        const wn_status status = tally_text(targets, targets->text[i].id, OWN_PREFIX, OWN_SCORED,
                                            tallies, N_TALLIES, err);
        if (status != WN_OK) {
            return status;
        }
    }
    static const double min_h_limits[N_SHARES] = {0.22, 0.36};
    for (int i = 0; i < N_TALLIES; i++) {
        report_tally(targets, &tallies[i], "own_texts", N_OWN, OWN_SCORED,
                     i == MIN_H ? min_h_limits : NULL);
    }
    report_gain(targets, tallies, FORESIGHT, (const double[]){5.0, 3.0});
    report_gain(targets, tallies, REHEARSAL, (const double[]){12.0, 8.0});
    return WN_OK;
}

wn_status wn_target_quality(struct wn_targets *targets, struct wn_error *err) {
    wn_status status = WN_OK;
    if (targets->reference != NULL) {
        status = measure_reference(targets, err);
    } else {
        wn_targets_note(
            targets,
            "quality: rows on reference texts are skipped (WINNOW_REFERENCE names no folder)");
    }
    return status == WN_OK ? measure_own(targets, err) : status;
}
