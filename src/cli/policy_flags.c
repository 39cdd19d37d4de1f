/* SPDX-License-Identifier: MIT */
#include "cli/policy_flags.h"

#include "core/budget.h"
#include "core/fit.h"

#include <math.h>
#include <string.h>

/* ---- names for choices ---- */

#define CHOICE(function, name_of, type)    \
    static const char *function(int idx) { \
        return name_of((enum type)(idx));  \
    }
CHOICE(score_choice, wn_score_name, wn_score)
CHOICE(score_summary, wn_score_summary, wn_score)
CHOICE(budget_choice, wn_budget_name, wn_budget)
CHOICE(budget_summary, wn_budget_summary, wn_budget)
CHOICE(pool_choice, wn_pool_name, wn_pool_kind)
CHOICE(exposure_choice, wn_exposure_name, wn_exposure)
CHOICE(temper_choice, wn_temper_name, wn_temper)
CHOICE(draws_choice, wn_draws_name, wn_draws)
CHOICE(merge_part_choice, wn_merge_part_name, wn_merge_part)
CHOICE(fit_choice, wn_fit_name, wn_fit)

static const char *select_choice(int idx) {
    return idx == 0 ? "auto" : wn_select_name((enum wn_select)(idx - 1));
}

static const char *fit_summary(int idx) {
    static const char *const summary[WN_FIT_COUNT] = {
        [WN_FIT_NONE] = "what is kept stays as it was",
        [WN_FIT_LOG_WEIGHTS] = "how much each kept entry weighs",
        [WN_FIT_VALUES] = "the values of the kept entries",
        [WN_FIT_BOTH] = "both",
    };
    return (unsigned)idx < WN_FIT_COUNT ? summary[idx] : NULL;
}

/* ---- values with a form of their own ---- */

static wn_status parse_keep(const char *text, void *field, struct wn_error *err) {
    return wn_keep_parse(text, field, err);
}

/* W,W,...; whether they sum to 1 is the policy's own check. */
static wn_status parse_weights(const char *text, struct wn_group_flag *group,
                               struct wn_error *err) {
    for (const char *at = text;; at++) {
        char word[32];
        size_t n_word = strcspn(at, ",");
        double weight = 0;
        snprintf(word, sizeof word, "%.*s", (int)(n_word < sizeof word ? n_word : sizeof word), at);
        if (n_word >= sizeof word || !wn_args_number(word, false, &weight) || weight < 0) {
            return wn_error_set(err, WN_E_ARG,
                                "'%.40s' is neither mean, nor max, nor weights of at least 0 like "
                                "0.5,0.3,0.2",
                                text);
        }
        if (group->n_weights == WN_GROUP_WEIGHTS_MAX) {
            return wn_error_set(err, WN_E_ARG, "more than %d weights", WN_GROUP_WEIGHTS_MAX);
        }
        group->weight[group->n_weights++] = weight;
        at += n_word;
        if (*at == '\0') {
            return WN_OK;
        }
    }
}

static wn_status parse_group(const char *text, void *field, struct wn_error *err) {
    struct wn_group_flag group = {.group = WN_GROUP_WEIGHTS};
    static const enum wn_group named[] = {WN_GROUP_MEAN, WN_GROUP_MAX};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        if (strcmp(text, wn_group_name(named[i])) == 0) {
            group.group = named[i];
        }
    }
    wn_status status = group.group == WN_GROUP_WEIGHTS ? parse_weights(text, &group, err) : WN_OK;
    if (status == WN_OK) {
        *(struct wn_group_flag *)field = group;
    }
    return status;
}

/* ---- the table ---- */

#define FIELD(name) .offset = offsetof(struct wn_policy_flags, name)
#define COMMON      WN_SECTION_COMPRESSION
#define FINE        "Fine points of compression"

const struct wn_flag wn_policy_common[WN_POLICY_N_COMMON] = {
    {.name = "keep",
     .value = "AMOUNT",
     .section = COMMON,
     .kind = WN_FLAG_PARSED,
     FIELD(keep),
     .parse = parse_keep,
     .preset = "20%",
     .help = "What stays of the cache: a share (20%), entries per head (512), or bytes of the "
             "whole cache (64MiB). 100% keeps everything. When entries are sampled, this is the "
             "mean over the draws, in bytes too."},
    {.name = "policy",
     .value = "NAME",
     .section = COMMON,
     .kind = WN_FLAG_CHOICE,
     FIELD(score),
     .choice = score_choice,
     .choice_summary = score_summary,
     .preset = "foresight",
     .help =
         "How entries are scored. Where it is not given and the model does not suit the default, "
         "min-h is used, and a note says so. rehearsal goes through the text a second time, "
         "and so keeps what other questions may need too."},
    {.name = "select",
     .value = "HOW",
     .section = COMMON,
     .kind = WN_FLAG_CHOICE,
     FIELD(select),
     .choice = select_choice,
     .preset = "auto",
     .help = "Keep the largest scores, or sample by score and correct attention for it. auto: as "
             "the policy's authors do."},
    {.name = "budget",
     .value = "HOW",
     .section = COMMON,
     .kind = WN_FLAG_CHOICE,
     FIELD(budget),
     .choice = budget_choice,
     .choice_summary = budget_summary,
     .help =
         "How entries are divided among heads. Default foresight, rehearsal and pyramid for the "
         "policies foresight, rehearsal and pyramidkv, head for the others. pyramid keeps the "
         "same in every layer when its smallest budget would not hold the protected entries."},
    {.name = "merge",
     .value = "T",
     .section = COMMON,
     .kind = WN_FLAG_NUMBER,
     FIELD(merge_threshold),
     .min = -1,
     .max = 1,
     .help = "Merge an evicted entry into the kept one with the most similar key when their cosine "
             "is above T, for example 0.8. Without this flag evicted entries are dropped."},
    {.name = "fit",
     .value = "WHAT",
     .section = COMMON,
     .kind = WN_FLAG_CHOICE,
     FIELD(fit),
     .choice = fit_choice,
     .choice_summary = fit_summary,
     .help = "What of the kept entries is adjusted so that queries get from them what they got "
             "from the whole cache. The queries are those foreseen for the text to come, and the "
             "rehearsed ones. Default bv for the policies foresight and rehearsal, none for "
             "the others."},
    {.name = "tau",
     .value = "X",
     .section = COMMON,
     .kind = WN_FLAG_NUMBER,
     FIELD(tau),
     .min = 0,
     .max = INFINITY,
     .above_min = true,
     .preset = "1",
     .help = "When entries are sampled: temperature of the correction for it; inf turns it off."},
    {.name = "sink",
     .value = "N",
     .section = COMMON,
     .kind = WN_FLAG_INTEGER,
     FIELD(sink),
     .min = 0,
     .max = 1000000,
     .automatic = "auto",
     .automatic_value = WN_PROTECT_AUTO,
     .preset = "auto",
     .help = "First positions that always stay. auto: 4, fewer in tiny budgets."},
    {.name = "recent",
     .value = "N",
     .section = COMMON,
     .kind = WN_FLAG_INTEGER,
     FIELD(recent),
     .min = 0,
     .max = 1000000,
     .automatic = "auto",
     .automatic_value = WN_PROTECT_AUTO,
     .preset = "auto",
     .help = "Last positions of the prompt that always stay. auto: 32, or 16 for foresight "
             "and rehearsal; fewer in tiny budgets."},
    {.name = "seed",
     .value = "N",
     .section = COMMON,
     .kind = WN_FLAG_INTEGER,
     FIELD(seed),
     .min = 0,
     .max = 4294967295.0,
     .preset = "0",
     .help = "Seed of all that is drawn: sampled entries, the policy random, and the tokens of an "
             "answer when they are sampled."},
};

const struct wn_flag wn_policy_fine[WN_POLICY_N_FINE] = {
    {.name = "group",
     .value = "HOW",
     .section = FINE,
     .kind = WN_FLAG_PARSED,
     FIELD(group),
     .parse = parse_group,
     .preset = "mean",
     .help = "How the query heads that share a KV head are joined: mean, max, or a weight for each "
             "(0.5,0.3,0.2), which sum to 1."},
    {.name = "window",
     .value = "N",
     .section = FINE,
     .kind = WN_FLAG_INTEGER,
     FIELD(window),
     .min = 1,
     .max = 65536,
     .automatic = "all",
     .automatic_value = WN_WINDOW_ALL,
     .help = "How many of the last queries are observed. Default 64 for snapkv and pyramidkv, 32 "
             "for exposure, all for the others that observe any."},
    {.name = "gamma",
     .value = "X",
     .section = FINE,
     .kind = WN_FLAG_NUMBER,
     FIELD(gamma),
     .min = 0,
     .max = 100,
     .preset = "0",
     .help = "exposure: attention is divided by the age of the entry to this power."},
    {.name = "exposure",
     .value = "HOW",
     .section = FINE,
     .kind = WN_FLAG_CHOICE,
     FIELD(exposure),
     .choice = exposure_choice,
     .preset = "age",
     .help = "exposure: the age is counted in full, or clipped to the queries observed."},
    {.name = "pool",
     .value = "HOW",
     .section = FINE,
     .kind = WN_FLAG_CHOICE,
     FIELD(pool),
     .choice = pool_choice,
     .help = "Pooling of the scores along the text. Default avg for snapkv and pyramidkv, none for "
             "the others."},
    {.name = "kernel",
     .value = "N",
     .section = FINE,
     .kind = WN_FLAG_INTEGER,
     FIELD(kernel),
     .min = 1,
     .max = 65535,
     .help = "Width of the pooling, odd. Default 5, or 7 with --pool max."},
    {.name = "proposal-temp",
     .value = "X",
     .section = FINE,
     .kind = WN_FLAG_NUMBER,
     FIELD(temperature),
     .min = 0,
     .max = 1000,
     .above_min = true,
     .preset = "1",
     .help = "Temperature of the distribution that entries are sampled from, and that the budget "
             "global divides by."},
    {.name = "temper",
     .value = "HOW",
     .section = FINE,
     .kind = WN_FLAG_CHOICE,
     FIELD(temper),
     .choice = temper_choice,
     .preset = "power",
     .help = "What --proposal-temp does: the probabilities to the power 1/X, or softmax of the "
             "scores divided by X."},
    {.name = "mix",
     .value = "A",
     .section = FINE,
     .kind = WN_FLAG_NUMBER,
     FIELD(mix),
     .min = 0,
     .max = 1,
     .preset = "1",
     .help = "Sample by score with this weight and uniformly with the rest of it."},
    {.name = "draws",
     .value = "HOW",
     .section = FINE,
     .kind = WN_FLAG_CHOICE,
     FIELD(draws),
     .choice = draws_choice,
     .preset = "nearest",
     .help = "Rule for the number of draws: nearest to the budget, or the published bisection."},
    {.name = "safeguard",
     .value = "X",
     .section = FINE,
     .kind = WN_FLAG_NUMBER,
     FIELD(safeguard),
     .min = 0,
     .max = 1,
     .preset = "0.2",
     .help = "Adaptive budgets: the share of the mean budget that every head keeps."},
    {.name = "beta",
     .value = "X",
     .section = FINE,
     .kind = WN_FLAG_NUMBER,
     FIELD(beta),
     .min = 1,
     .max = 10000,
     .preset = "20",
     .help = "The budget pyramid: how many times smaller than the mean the smallest one is."},
    {.name = "eta",
     .value = "X",
     .section = FINE,
     .kind = WN_FLAG_NUMBER,
     FIELD(eta),
     .min = 0,
     .max = 10,
     .help = "The budgets foresight and rehearsal: above 1, heads that matter much get more than "
             "their share; below 1, less. Default 1.3 for the policy foresight, 1 for the others."},
    {.name = "head-floor",
     .value = "X",
     .section = FINE,
     .kind = WN_FLAG_NUMBER,
     FIELD(head_floor),
     .min = 0,
     .max = 1,
     .preset = "0.1",
     .help = "The budgets foresight and rehearsal: the share of the mean budget that every head "
             "keeps."},
    {.name = "ridge",
     .value = "X",
     .section = FINE,
     .kind = WN_FLAG_NUMBER,
     FIELD(ridge),
     .min = 0,
     .max = 1000,
     .above_min = true,
     .help = "--fit v and bv: how strongly values are held where they were; the larger, the less "
             "they move, and the better rare facts survive. Default 0.3 for the policy rehearsal, "
             "0.1 for the others."},
    {.name = "merge-key",
     .value = "HOW",
     .section = FINE,
     .kind = WN_FLAG_CHOICE,
     FIELD(merge_key),
     .choice = merge_part_choice,
     .preset = "keep",
     .help = "The key of merged entries: the kept one's own, or the mean."},
    {.name = "merge-value",
     .value = "HOW",
     .section = FINE,
     .kind = WN_FLAG_CHOICE,
     FIELD(merge_value),
     .choice = merge_part_choice,
     .preset = "mean",
     .help = "The value of merged entries: the kept one's own, or the mean."},
};

/* ---- the policy ---- */

struct line {
    const struct wn_flag_table *table;
    const struct wn_flags_given *given;
};

static bool has(const struct line *line, const char *name) {
    return wn_args_was_given(line->table, line->given, name);
}

static void set_score(const struct wn_policy_flags *flags, const struct line *line,
                      struct wn_policy *policy) {
    if (has(line, "window")) {
        policy->window = (int)flags->window;
    }
    if (has(line, "gamma")) {
        policy->gamma = flags->gamma;
    }
    if (has(line, "exposure")) {
        policy->exposure = (enum wn_exposure)flags->exposure;
    }
    if (has(line, "pool")) {
        policy->pool = (enum wn_pool_kind)flags->pool;
        /* The original's width for this pooling. */
        policy->kernel = policy->pool == WN_POOL_MAX ? 7 : policy->kernel;
    }
    if (has(line, "kernel")) {
        policy->kernel = (int)flags->kernel;
    }
    if (has(line, "group")) {
        policy->group = flags->group.group;
        policy->n_group_weights = flags->group.n_weights;
        memcpy(policy->group_weight, flags->group.weight, sizeof policy->group_weight);
    }
}

static void set_selection(const struct wn_policy_flags *flags, const struct line *line,
                          struct wn_policy *policy) {
    if (flags->select > 0) {
        policy->select = (enum wn_select)(flags->select - 1);
    }
    if (has(line, "temper")) {
        policy->temper = (enum wn_temper)flags->temper;
    }
    if (has(line, "proposal-temp")) {
        policy->temperature = flags->temperature;
    }
    if (has(line, "mix")) {
        policy->mix = flags->mix;
    }
    if (has(line, "draws")) {
        policy->draws = (enum wn_draws)flags->draws;
    }
    if (has(line, "tau")) {
        policy->tau = flags->tau;
    }
    policy->seed = (uint64_t)flags->seed;
}

static void set_budget(const struct wn_policy_flags *flags, const struct line *line,
                       struct wn_policy *policy) {
    policy->keep = flags->keep;
    if (has(line, "budget")) {
        policy->budget = (enum wn_budget)flags->budget;
    }
    if (has(line, "safeguard")) {
        policy->safeguard = flags->safeguard;
    }
    if (has(line, "beta")) {
        policy->beta = flags->beta;
    }
    if (has(line, "eta")) {
        policy->eta = flags->eta;
    }
    if (has(line, "head-floor")) {
        policy->head_floor = flags->head_floor;
    }
    if (has(line, "sink")) {
        policy->sink = (int)flags->sink;
    }
    if (has(line, "recent")) {
        policy->recent = (int)flags->recent;
    }
}

static void set_merging(const struct wn_policy_flags *flags, const struct line *line,
                        struct wn_policy *policy) {
    if (has(line, "merge")) {
        policy->merge = true;
        policy->merge_threshold = flags->merge_threshold;
    }
    if (has(line, "merge-key")) {
        policy->merge_key = (enum wn_merge_part)flags->merge_key;
    }
    if (has(line, "merge-value")) {
        policy->merge_value = (enum wn_merge_part)flags->merge_value;
    }
}

static void set_fit(const struct wn_policy_flags *flags, const struct line *line,
                    struct wn_policy *policy) {
    if (has(line, "fit")) {
        policy->fit = (enum wn_fit)flags->fit;
    }
    if (has(line, "ridge")) {
        policy->ridge = flags->ridge;
    }
}

/* The library's sentence begins with a field of the policy; the user's begins with the flag. */
static wn_status refuse(wn_status status, const char *sentence, struct wn_error *err) {
    static const struct {
        const char *field, *flag;
    } other_names[] = {
        {"score", "policy"},          {"temperature", "proposal-temp"}, {"group_weight", "group"},
        {"n_group_weights", "group"}, {"merge_threshold", "merge"},
    };
    size_t n_field = strspn(sentence, "abcdefghijklmnopqrstuvwxyz_");
    for (size_t i = 0; i < sizeof other_names / sizeof other_names[0]; i++) {
        const char *field = other_names[i].field;
        if (n_field == strlen(field) && strncmp(sentence, field, n_field) == 0) {
            return wn_error_set(err, status, "--%s%s", other_names[i].flag, sentence + n_field);
        }
    }
    char flag[64];
    snprintf(flag, sizeof flag, "%.*s", (int)(n_field < sizeof flag ? n_field : 0), sentence);
    for (char *at = strchr(flag, '_'); at != NULL; at = strchr(at, '_')) {
        *at = '-';
    }
    return wn_error_set(err, status, "--%s%s", flag, sentence + n_field);
}

wn_status wn_policy_flags_make(const struct wn_policy_flags *flags,
                               const struct wn_flag_table *table,
                               const struct wn_flags_given *given, struct wn_policy *policy,
                               struct wn_error *err) {
    const struct line line = {table, given};
    wn_policy_default(policy, (enum wn_score)flags->score);
    set_score(flags, &line, policy);
    set_selection(flags, &line, policy);
    set_budget(flags, &line, policy);
    set_merging(flags, &line, policy);
    set_fit(flags, &line, policy);
    struct wn_error why = {0};
    wn_status status = wn_policy_check(policy, &why);
    return status == WN_OK ? WN_OK : refuse(status, why.message, err);
}

bool wn_policy_flags_fallback(const struct wn_policy_flags *flags,
                              const struct wn_flag_table *table, const struct wn_flags_given *given,
                              struct wn_policy *fallback) {
    const struct line line = {table, given};
    struct wn_policy_flags others = *flags;
    others.score = WN_SCORE_MIN_H;
    return !has(&line, "policy") &&
           wn_policy_flags_make(&others, table, given, fallback, NULL) == WN_OK &&
           !wn_policy_foresees(fallback) && fallback->fit == WN_FIT_NONE;
}

/* ---- flags without effect ---- */

static bool is_not_exposure(const struct wn_policy *policy) {
    return policy->score != WN_SCORE_EXPOSURE;
}

static bool is_exposure_without_gamma(const struct wn_policy *policy) {
    return policy->score == WN_SCORE_EXPOSURE && policy->gamma == 0;
}

static bool sees_no_attention(const struct wn_policy *policy) {
    return wn_policy_observe(policy) == WN_OBSERVE_NONE;
}

static bool is_tova(const struct wn_policy *policy) {
    return policy->score == WN_SCORE_TOVA;
}

static bool sees_one_query(const struct wn_policy *policy) {
    return policy->score == WN_SCORE_TOVA || policy->score == WN_SCORE_MIN ||
           policy->score == WN_SCORE_MIN_C;
}

static bool does_not_pool(const struct wn_policy *policy) {
    return policy->pool == WN_POOL_NONE;
}

static bool does_not_sample(const struct wn_policy *policy) {
    return policy->select != WN_SELECT_SAMPLE;
}

/* A global budget divides by the proposal, whether or not entries are drawn from it. */
static bool has_no_proposal(const struct wn_policy *policy) {
    return does_not_sample(policy) && policy->budget != WN_BUDGET_GLOBAL;
}

static bool draws_nothing(const struct wn_policy *policy) {
    return does_not_sample(policy) && policy->score != WN_SCORE_RANDOM;
}

static bool is_not_adaptive(const struct wn_policy *policy) {
    return policy->budget != WN_BUDGET_ADAPTIVE && policy->budget != WN_BUDGET_ADAPTIVE_MODEL;
}

static bool is_not_by_need(const struct wn_policy *policy) {
    return !wn_budget_by_contribution(policy->budget);
}

static bool fits_no_values(const struct wn_policy *policy) {
    return !wn_fit_has_values(policy->fit);
}

static bool is_no_pyramid(const struct wn_policy *policy) {
    return policy->budget != WN_BUDGET_PYRAMID;
}

static bool does_not_merge(const struct wn_policy *policy) {
    return !policy->merge;
}

struct idle_flag {
    const char *name;
    bool (*is_idle)(const struct wn_policy *policy);
    const char *why;
    bool by_score; /* the sentence goes on with the policy's name */
};

static const char to_propose[] =
    "nothing is sampled; add --select sample, or divide with --budget global";
static const char to_merge[] = "nothing is merged; add --merge 0.8";
static const char to_divide_by_need[] = "only the budgets foresight and rehearsal use it";

static const struct idle_flag idle_flags[] = {
    {"gamma", is_not_exposure, "only exposure uses it", true},
    {"exposure", is_not_exposure, "only exposure uses it", true},
    {"exposure", is_exposure_without_gamma, "with --gamma 0 nothing is divided by age", false},
    {"window", sees_no_attention, "only policies that observe the prompt's queries use it", true},
    {"window", sees_one_query, "only policies that look beyond the last query use it", true},
    {"group", sees_no_attention, "only policies that observe the prompt's queries use it", true},
    {"group", is_tova, "tova averages over all heads of a layer", false},
    {"kernel", does_not_pool, "scores are not pooled; add --pool avg or --pool max", false},
    {"tau", does_not_sample, "only sampled entries are corrected; add --select sample", false},
    {"mix", has_no_proposal, to_propose, false},
    {"proposal-temp", has_no_proposal, to_propose, false},
    {"temper", has_no_proposal, to_propose, false},
    {"draws", does_not_sample, "nothing is sampled; add --select sample", false},
    {"safeguard", is_not_adaptive, "only the budgets adaptive and adaptive-model use it", false},
    {"beta", is_no_pyramid, "only the budget pyramid uses it", false},
    {"eta", is_not_by_need, to_divide_by_need, false},
    {"head-floor", is_not_by_need, to_divide_by_need, false},
    {"ridge", fits_no_values, "no values are fitted; add --fit v or --fit bv", false},
    {"merge-key", does_not_merge, to_merge, false},
    {"merge-value", does_not_merge, to_merge, false},
};

/* Keeping everything leaves every other flag without effect. */
static void warn_of_full(const struct line *line, bool seed_has_other_use, FILE *out) {
    const struct {
        const struct wn_flag *row;
        int n_rows;
    } parts[] = {{wn_policy_common, WN_POLICY_N_COMMON}, {wn_policy_fine, WN_POLICY_N_FINE}};
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
        for (int i = 0; i < parts[p].n_rows; i++) {
            const char *name = parts[p].row[i].name;
            bool has_effect =
                strcmp(name, "policy") == 0 || (strcmp(name, "seed") == 0 && seed_has_other_use);
            if (has(line, name) && !has_effect) {
                fprintf(out,
                        "winnow: warning: --%s has no effect (the policy full keeps everything)\n",
                        name);
            }
        }
    }
}

void wn_policy_flags_warn(const struct wn_policy *policy, const struct wn_flag_table *table,
                          const struct wn_flags_given *given, bool seed_has_other_use, FILE *out) {
    const struct line line = {table, given};
    if (policy->score == WN_SCORE_FULL) {
        warn_of_full(&line, seed_has_other_use, out);
        return;
    }
    for (size_t i = 0; i < sizeof idle_flags / sizeof idle_flags[0]; i++) {
        const struct idle_flag *idle = &idle_flags[i];
        if (has(&line, idle->name) && idle->is_idle(policy)) {
            fprintf(out, "winnow: warning: --%s has no effect (%s%s%s)\n", idle->name, idle->why,
                    idle->by_score ? ", and the policy is " : "",
                    idle->by_score ? wn_score_name(policy->score) : "");
        }
    }
    if (has(&line, "seed") && draws_nothing(policy) && !seed_has_other_use) {
        fprintf(out, "winnow: warning: --seed has no effect (nothing is drawn)\n");
    }
    if (has(&line, "sink") && policy->sink == 0) {
        fprintf(out, "winnow: warning: --sink 0 lets the first positions be evicted (models park "
                     "attention there, and often write garbage without them; leave --sink at "
                     "auto)\n");
    }
}
