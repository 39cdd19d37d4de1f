/* SPDX-License-Identifier: MIT */
#include "core/score.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

const char *wn_select_name(enum wn_select select) {
    static const char *const name[WN_SELECT_COUNT] = {
        [WN_SELECT_TOPK] = "topk",
        [WN_SELECT_SAMPLE] = "sample",
    };
    return (unsigned)select < WN_SELECT_COUNT ? name[select] : NULL;
}

const char *wn_group_name(enum wn_group group) {
    static const char *const name[WN_GROUP_COUNT] = {
        [WN_GROUP_MEAN] = "mean",
        [WN_GROUP_MAX] = "max",
        [WN_GROUP_WEIGHTS] = "weights",
    };
    return (unsigned)group < WN_GROUP_COUNT ? name[group] : NULL;
}

static const struct {
    const char *name, *summary;
} budgets[WN_BUDGET_COUNT] = {
    [WN_BUDGET_HEAD] = {"head", "the same share for every head"},
    [WN_BUDGET_GLOBAL] = {"global", "one number of draws for all heads (Geh et al.)"},
    [WN_BUDGET_PYRAMID] = {"pyramid", "falling over the layers (PyramidKV)"},
    [WN_BUDGET_ADAPTIVE] = {"adaptive", "heads of a layer compete by score (Ada-KV)"},
    [WN_BUDGET_ADAPTIVE_MODEL] = {"adaptive-model", "heads of all layers compete by score"},
    [WN_BUDGET_FORESIGHT] = {"foresight",
                             "heads compete by what queries after the prompt will need"},
    [WN_BUDGET_REHEARSAL] = {"rehearsal", "half by that, half by what repeating the prompt needs"},
    [WN_BUDGET_STATIC] = {"static", "a fixed share for each head, measured once for the model"},
};

const char *wn_budget_name(enum wn_budget budget) {
    return (unsigned)budget < WN_BUDGET_COUNT ? budgets[budget].name : NULL;
}

const char *wn_budget_summary(enum wn_budget budget) {
    return (unsigned)budget < WN_BUDGET_COUNT ? budgets[budget].summary : NULL;
}

const char *wn_pool_name(enum wn_pool_kind pool) {
    static const char *const name[WN_POOL_COUNT] = {
        [WN_POOL_NONE] = "none",
        [WN_POOL_AVG] = "avg",
        [WN_POOL_MAX] = "max",
    };
    return (unsigned)pool < WN_POOL_COUNT ? name[pool] : NULL;
}

const char *wn_exposure_name(enum wn_exposure exposure) {
    static const char *const name[WN_EXPOSURE_COUNT] = {
        [WN_EXPOSURE_AGE] = "age",
        [WN_EXPOSURE_CLIPPED] = "clipped",
    };
    return (unsigned)exposure < WN_EXPOSURE_COUNT ? name[exposure] : NULL;
}

const char *wn_temper_name(enum wn_temper temper) {
    static const char *const name[WN_TEMPER_COUNT] = {
        [WN_TEMPER_POWER] = "power",
        [WN_TEMPER_SOFTMAX] = "softmax",
    };
    return (unsigned)temper < WN_TEMPER_COUNT ? name[temper] : NULL;
}

const char *wn_draws_name(enum wn_draws draws) {
    static const char *const name[WN_DRAWS_COUNT] = {
        [WN_DRAWS_NEAREST] = "nearest",
        [WN_DRAWS_BISECT] = "bisect",
    };
    return (unsigned)draws < WN_DRAWS_COUNT ? name[draws] : NULL;
}

const char *wn_merge_part_name(enum wn_merge_part part) {
    static const char *const name[WN_MERGE_COUNT] = {
        [WN_MERGE_KEEP] = "keep",
        [WN_MERGE_MEAN] = "mean",
    };
    return (unsigned)part < WN_MERGE_COUNT ? name[part] : NULL;
}

const char *wn_fit_name(enum wn_fit fit) {
    static const char *const name[WN_FIT_COUNT] = {
        [WN_FIT_NONE] = "none",
        [WN_FIT_LOG_WEIGHTS] = "b",
        [WN_FIT_VALUES] = "v",
        [WN_FIT_BOTH] = "bv",
    };
    return (unsigned)fit < WN_FIT_COUNT ? name[fit] : NULL;
}

/* ---- the policy ---- */

void wn_policy_default(struct wn_policy *policy, enum wn_score score) {
    static const struct wn_score_def none = {.window = WN_WINDOW_ALL};
    const struct wn_score_def *def = wn_score_find(score);
    def = def != NULL ? def : &none;
    *policy = (struct wn_policy){
        .score = score,
        .window = def->window,
        .pool = def->pool,
        .kernel = 5,
        .temperature = 1.0,
        .mix = 1.0,
        .keep = {.kind = WN_KEEP_SHARE, .share = 0.2},
        .budget = def->budget,
        .safeguard = 0.2,
        .eta = def->eta > 0.0 ? def->eta : 1.0,
        .head_floor = 0.1,
        .beta = 20.0,
        .sink = WN_PROTECT_AUTO,
        .recent = WN_PROTECT_AUTO,
        .select = def->select,
        .tau = 1.0,
        .merge_threshold = 0.8,
        .merge_value = WN_MERGE_MEAN,
        .fit = def->fit,
        .ridge = def->ridge > 0.0 ? def->ridge : 0.1,
    };
}

static wn_status check_keep(const struct wn_keep *keep, struct wn_error *err) {
    switch (keep->kind) {
    case WN_KEEP_SHARE:
        if (!(keep->share > 0.0 && keep->share <= 1.0)) {
            return wn_error_set(err, WN_E_ARG, "keep: the share must be above 0 and at most 100%%");
        }
        return WN_OK;
    case WN_KEEP_TOKENS:
        if (keep->tokens < 1) {
            return wn_error_set(err, WN_E_ARG, "keep: the entries per head must be at least 1");
        }
        return WN_OK;
    case WN_KEEP_BYTES:
        if (keep->bytes < 1) {
            return wn_error_set(err, WN_E_ARG, "keep: the bytes must be at least 1");
        }
        return WN_OK;
    }
    return wn_error_set(err, WN_E_ARG, "keep: %d is no kind of budget", (int)keep->kind);
}

static wn_status check_choices(const struct wn_policy *policy, struct wn_error *err) {
    const struct {
        const char *field, *name;
        int value;
    } choice[] = {
        {"score", wn_score_name(policy->score), (int)policy->score},
        {"exposure", wn_exposure_name(policy->exposure), (int)policy->exposure},
        {"pool", wn_pool_name(policy->pool), (int)policy->pool},
        {"group", wn_group_name(policy->group), (int)policy->group},
        {"temper", wn_temper_name(policy->temper), (int)policy->temper},
        {"budget", wn_budget_name(policy->budget), (int)policy->budget},
        {"select", wn_select_name(policy->select), (int)policy->select},
        {"draws", wn_draws_name(policy->draws), (int)policy->draws},
        {"merge_key", wn_merge_part_name(policy->merge_key), (int)policy->merge_key},
        {"merge_value", wn_merge_part_name(policy->merge_value), (int)policy->merge_value},
        {"fit", wn_fit_name(policy->fit), (int)policy->fit},
    };
    for (size_t i = 0; i < sizeof choice / sizeof choice[0]; i++) {
        if (choice[i].name == NULL) {
            return wn_error_set(err, WN_E_ARG, "%s: %d is not one of its values", choice[i].field,
                                choice[i].value);
        }
    }
    return WN_OK;
}

static wn_status check_numbers(const struct wn_policy *policy, struct wn_error *err) {
    const struct {
        const char *field;
        double value, min, max;
        bool above_min;
        const char *range;
    } number[] = {
        {"gamma", policy->gamma, 0.0, DBL_MAX, false, "a finite number of at least 0"},
        {"temperature", policy->temperature, 0.0, DBL_MAX, true, "a finite number above 0"},
        {"mix", policy->mix, 0.0, 1.0, false, "in [0, 1]"},
        {"safeguard", policy->safeguard, 0.0, 1.0, false, "in [0, 1]"},
        {"eta", policy->eta, 0.0, DBL_MAX, false, "a finite number of at least 0"},
        {"head_floor", policy->head_floor, 0.0, 1.0, false, "in [0, 1]"},
        {"beta", policy->beta, 1.0, DBL_MAX, false, "a finite number of at least 1"},
        {"tau", policy->tau, 0.0, INFINITY, true, "above 0"},
        {"merge_threshold", policy->merge_threshold, -1.0, 1.0, false, "in [-1, 1]"},
        {"ridge", policy->ridge, 0.0, DBL_MAX, true, "a finite number above 0"},
    };
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) {
        const double x = number[i].value;
        if (!(x >= number[i].min && x <= number[i].max) ||
            (number[i].above_min && x == number[i].min)) {
            return wn_error_set(err, WN_E_ARG, "%s: %g is not %s", number[i].field, x,
                                number[i].range);
        }
    }
    return WN_OK;
}

static wn_status check_window(const struct wn_policy *policy, struct wn_error *err) {
    if (policy->window == WN_WINDOW_ALL) {
        if (wn_score_find(policy->score)->needs_window) {
            return wn_error_set(err, WN_E_ARG,
                                "window: %s keeps all of its window, so that cannot be the whole "
                                "text",
                                wn_score_name(policy->score));
        }
    } else if (policy->window < 1 || policy->window > 65536) {
        return wn_error_set(err, WN_E_ARG, "window: %d is not in 1 .. 65536", policy->window);
    }
    if (policy->kernel < 1 || policy->kernel % 2 == 0) {
        return wn_error_set(err, WN_E_ARG, "kernel: %d is not an odd number of at least 1",
                            policy->kernel);
    }
    return WN_OK;
}

static wn_status check_group(const struct wn_policy *policy, struct wn_error *err) {
    if (policy->group != WN_GROUP_WEIGHTS) {
        return WN_OK;
    }
    if (policy->n_group_weights < 1 || policy->n_group_weights > WN_GROUP_WEIGHTS_MAX) {
        return wn_error_set(err, WN_E_ARG, "group_weight: %d weights are not 1 .. %d",
                            policy->n_group_weights, WN_GROUP_WEIGHTS_MAX);
    }
    double total = 0.0;
    for (int g = 0; g < policy->n_group_weights; g++) {
        if (!(policy->group_weight[g] >= 0.0)) {
            return wn_error_set(err, WN_E_ARG, "group_weight: %g is not at least 0",
                                policy->group_weight[g]);
        }
        total += policy->group_weight[g];
    }
    if (!(fabs(total - 1.0) <= 1e-6)) {
        return wn_error_set(err, WN_E_ARG, "group_weight: the weights sum to %g, not to 1", total);
    }
    return WN_OK;
}

static wn_status check_protected(const struct wn_policy *policy, struct wn_error *err) {
    if (policy->sink < 0 && policy->sink != WN_PROTECT_AUTO) {
        return wn_error_set(err, WN_E_ARG, "sink: %d is below 0", policy->sink);
    }
    if (policy->recent < 0 && policy->recent != WN_PROTECT_AUTO) {
        return wn_error_set(err, WN_E_ARG, "recent: %d is below 0", policy->recent);
    }
    return WN_OK;
}

wn_status wn_policy_check(const struct wn_policy *policy, struct wn_error *err) {
    wn_status (*const checks[])(const struct wn_policy *, struct wn_error *) = {
        check_choices, check_numbers, check_window, check_group, check_protected,
    };
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        const wn_status status = checks[i](policy, err);
        if (status != WN_OK) {
            return status;
        }
    }
    return check_keep(&policy->keep, err);
}

/* ---- the keep value as text ---- */

static const struct {
    const char *suffix;
    int64_t bytes;
} byte_units[] = {
    {"B", 1},         {"KB", 1000},
    {"KiB", 1 << 10}, {"MB", 1000 * 1000},
    {"MiB", 1 << 20}, {"GB", 1000 * 1000 * 1000},
    {"GiB", 1 << 30},
};
enum { N_BYTE_UNITS = sizeof byte_units / sizeof byte_units[0] };

/* An unsigned decimal number: whole + fraction, 0 <= fraction < 1. */
struct decimal {
    int64_t whole;
    double fraction;
    bool has_point, too_large;
};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Reads digits[.digits]; returns what follows, or NULL when the text does not begin so. Not strtod,
 * which depends on the locale and takes signs, white space, exponents and "nan". */
static const char *read_decimal(const char *text, struct decimal *out) {
    *out = (struct decimal){0};
    if (!is_digit(*text)) {
        return NULL;
    }
    for (; is_digit(*text); text++) {
        const int digit = *text - '0';
        if (out->whole > (INT64_MAX - digit) / 10) {
            out->too_large = true;
        } else {
            out->whole = out->whole * 10 + digit;
        }
    }
    if (*text != '.') {
        return text;
    }
    text++;
    if (!is_digit(*text)) {
        return NULL;
    }
    out->has_point = true;
    double numerator = 0.0;
    double denominator = 1.0;
    for (; is_digit(*text); text++) {
        if (denominator < 1e15) { /* further digits are below the precision of a double */
            numerator = numerator * 10.0 + (*text - '0');
            denominator *= 10.0;
        }
    }
    out->fraction = numerator / denominator;
    return text;
}

static wn_status parse_share(const char *text, const struct decimal *value, struct wn_keep *keep,
                             struct wn_error *err) {
    const double percent = (double)value->whole + value->fraction;
    if (value->too_large || percent > 100.0) {
        return wn_error_set(err, WN_E_ARG, "keep '%.40s': at most 100%% can be kept", text);
    }
    if (percent == 0.0) {
        return wn_error_set(err, WN_E_ARG, "keep '%.40s': the share must be above 0%%", text);
    }
    *keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = percent / 100.0};
    return WN_OK;
}

static wn_status parse_tokens(const char *text, const struct decimal *value, struct wn_keep *keep,
                              struct wn_error *err) {
    if (value->has_point && value->whole == 0) {
        return wn_error_set(err, WN_E_ARG,
                            "keep '%.40s' has no unit; a share is written as %.10g%%", text,
                            value->fraction * 100.0);
    }
    if (value->has_point) {
        return wn_error_set(err, WN_E_ARG, "keep '%.40s': entries per head are a whole number",
                            text);
    }
    if (value->too_large) {
        return wn_error_set(err, WN_E_ARG, "keep '%.40s' is too large a number", text);
    }
    if (value->whole == 0) {
        return wn_error_set(err, WN_E_ARG, "keep '%.40s': at least one entry per head must stay",
                            text);
    }
    *keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = value->whole};
    return WN_OK;
}

static wn_status parse_bytes(const char *text, const struct decimal *value, int64_t unit_bytes,
                             struct wn_keep *keep, struct wn_error *err) {
    /* The fraction of a unit is below the unit itself, so one unit of room is enough for it. */
    if (value->too_large || value->whole > INT64_MAX / unit_bytes - 1) {
        return wn_error_set(err, WN_E_ARG, "keep '%.40s' is too large a number", text);
    }
    const int64_t bytes =
        value->whole * unit_bytes + (int64_t)(value->fraction * (double)unit_bytes);
    if (bytes == 0) {
        return wn_error_set(err, WN_E_ARG, "keep '%.40s': the bytes must be at least 1", text);
    }
    *keep = (struct wn_keep){.kind = WN_KEEP_BYTES, .bytes = bytes};
    return WN_OK;
}

wn_status wn_keep_parse(const char *text, struct wn_keep *keep, struct wn_error *err) {
    struct decimal value;
    const char *unit = read_decimal(text, &value);
    if (unit != NULL && *unit == '\0') {
        return parse_tokens(text, &value, keep, err);
    }
    if (unit != NULL && strcmp(unit, "%") == 0) {
        return parse_share(text, &value, keep, err);
    }
    for (int u = 0; unit != NULL && u < N_BYTE_UNITS; u++) {
        if (strcmp(unit, byte_units[u].suffix) == 0) {
            return parse_bytes(text, &value, byte_units[u].bytes, keep, err);
        }
    }
    return wn_error_set(err, WN_E_ARG,
                        "keep '%.40s' is not a share (20%%), a number of entries per head (512) or "
                        "bytes (64MiB)",
                        text);
}

/* The fewest decimals of a percent that read back as the same share; integer arithmetic, so that no
 * locale's decimal comma gets in. */
static void format_share(double share, char *text, size_t text_bytes) {
    const double percent = isfinite(share) ? share * 100.0 : 0.0;
    int64_t scale = 1;
    for (int digits = 0; digits <= 15; digits++, scale *= 10) {
        const int64_t scaled = (int64_t)llround(percent * (double)scale);
        const long long whole = scaled / scale, fraction = scaled % scale;
        char shortest[48];
        if (digits == 0) {
            snprintf(shortest, sizeof shortest, "%lld%%", whole);
        } else {
            snprintf(shortest, sizeof shortest, "%lld.%0*lld%%", whole, digits, fraction);
        }
        struct wn_keep keep;
        const bool same = wn_keep_parse(shortest, &keep, NULL) == WN_OK && keep.share == share;
        if (same || digits == 15) {
            snprintf(text, text_bytes, "%s", shortest);
            return;
        }
    }
}

void wn_keep_format(const struct wn_keep *keep, char *text, size_t text_bytes) {
    if (keep->kind == WN_KEEP_SHARE) {
        format_share(keep->share, text, text_bytes);
        return;
    }
    if (keep->kind == WN_KEEP_TOKENS) {
        snprintf(text, text_bytes, "%lld", (long long)keep->tokens);
        return;
    }
    /* The unit that gives the smallest whole number. */
    int best = 0;
    for (int u = 1; u < N_BYTE_UNITS; u++) {
        if (keep->bytes % byte_units[u].bytes == 0) {
            best = u;
        }
    }
    snprintf(text, text_bytes, "%lld%s", (long long)(keep->bytes / byte_units[best].bytes),
             byte_units[best].suffix);
}
