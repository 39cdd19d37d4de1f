/* SPDX-License-Identifier: MIT */
/* How the mean budgets are divided among heads. */
#include "core/budget.h"

#include "core/score.h"
#include "core/sort_key.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

struct division {
    const struct wn_policy *policy;
    const struct wn_head_view *heads;
    const double *const *score;
    const double *factor; /* [n_heads] of a head's scores where heads compete; NULL: 1 */
    double safeguard;     /* share of the mean budget that is a head's own */
    const int64_t *entry_bytes;
    int n_heads;
    struct wn_head_budget *budget;
};

static int64_t n_protected(const struct wn_head_budget *budget) {
    return budget->protect.n_first + budget->protect.n_last;
}

/* First head behind those of the layer of `first`. */
static int layer_end(const struct division *d, int first) {
    int last = first + 1;
    while (last < d->n_heads && d->heads[last].layer == d->heads[first].layer) {
        last++;
    }
    return last;
}

/* ---- pyramid ---- */

/*
 * PyramidKV as in kvpress: linear from the largest budget in the first layer to the smallest in the
 * last, rounded half to even, all k where the smallest would not hold what must stay. The distance
 * from k is odd about the middle layer, also once it is rounded, so that the layers' sum is exactly
 * n_layers k.
 */
static int64_t pyramid_budget(const struct wn_head_view *head, const struct wn_head_budget *budget,
                              double beta, int i_layer, int n_layers) {
    const int64_t k = budget->k;
    const int64_t most = head->n_entries - n_protected(budget);
    const int64_t largest = wn_min_i64(2 * k - (int64_t)floor((double)k / beta), most);
    const int64_t smallest = 2 * k - largest;
    if (n_layers < 2 || largest < smallest || smallest < wn_budget_floor(head, budget)) {
        return k;
    }
    const int from_middle = n_layers - 1 - 2 * i_layer;
    const double distance = (double)((largest - k) * from_middle) / (n_layers - 1);
    return (int64_t)rint((double)k + distance);
}

static void divide_pyramid(const struct division *d) {
    int n_layers = 0;
    for (int h = 0; h < d->n_heads; h = layer_end(d, h)) {
        n_layers++;
    }
    int i_layer = 0;
    for (int first = 0; first < d->n_heads; i_layer++) {
        const int last = layer_end(d, first);
        for (int h = first; h < last; h++) {
            d->budget[h].k =
                pyramid_budget(&d->heads[h], &d->budget[h], d->policy->beta, i_layer, n_layers);
        }
        first = last;
    }
}

/* ---- adaptive ---- */

/* Entries of a head that no other head can win: its share of the mean budget, of which protected
 * entries come first. */
static int64_t n_safe(const struct division *d, int h) {
    const struct wn_head_budget *budget = &d->budget[h];
    return wn_max_i64(wn_floor_share(budget->k, d->safeguard),
                      wn_budget_floor(&d->heads[h], budget));
}

/* How many of a head's entries, protected ones included, win against a bar: those above it, but no
 * fewer than are safe. The safe ones are its best, so that they come before any others. */
static int64_t n_winning(const struct division *d, int h, int64_t n_above) {
    return wn_max_i64(n_safe(d, h), n_protected(&d->budget[h]) + n_above);
}

/* Counts the competing keys of head h by the byte at `shift` when the bytes above it are `prefix`,
 * and returns how many have larger bytes above it. */
static int64_t count_keys(const struct division *d, int h, uint64_t prefix, int shift,
                          int64_t count[256]) {
    const struct wn_protected *protect = &d->budget[h].protect;
    const int64_t last = d->heads[h].n_entries - protect->n_last;
    const double factor = d->factor != NULL ? d->factor[h] : 1.0;
    int64_t n_above = 0;
    for (int64_t i = protect->n_first; i < last; i++) {
        const uint64_t key = wn_sort_key(factor * d->score[h][i]) >> shift;
        n_above += key >> 8 > prefix;
        if (key >> 8 == prefix) {
            count[key & 0xff]++;
        }
    }
    return n_above;
}

/*
 * The heads [first, last) share the sum of their budgets. The bar is the key at and above which at
 * least that many entries win; it is found byte by byte from the highest down, so that the cost is
 * linear and needs no memory. Entries at the bar itself win in the order of the heads until the sum
 * is reached.
 */
static void divide_adaptive(const struct division *d, int first, int last) {
    int64_t wanted = 0;
    for (int h = first; h < last; h++) {
        wanted += d->budget[h].k;
    }
    uint64_t bar = 0;
    int64_t left = 0; /* for entries at the bar */
    for (int shift = 56; shift >= 0; shift -= 8) {
        /* Entries that win when the bar has this byte; 256 stands for a byte above all. */
        int64_t n_reaching[257] = {0};
        for (int h = first; h < last; h++) {
            int64_t count[256] = {0};
            int64_t n_above = count_keys(d, h, bar, shift, count);
            n_reaching[256] += n_winning(d, h, n_above);
            for (int byte = 255; byte >= 0; byte--) {
                n_above += count[byte];
                n_reaching[byte] += n_winning(d, h, n_above);
            }
        }
        int byte = 255;
        while (byte > 0 && n_reaching[byte] < wanted) {
            byte--;
        }
        bar = bar << 8 | (uint64_t)byte;
        left = wanted - n_reaching[byte + 1];
    }
    for (int h = first; h < last; h++) {
        int64_t count[256] = {0};
        int64_t n_above = count_keys(d, h, bar >> 8, 0, count);
        const int byte = (int)(bar & 0xff);
        for (int above = byte + 1; above < 256; above++) {
            n_above += count[above];
        }
        const int64_t k = n_winning(d, h, n_above);
        const int64_t n_more = wn_min_i64(left, n_winning(d, h, n_above + count[byte]) - k);
        d->budget[h].k = k + n_more;
        left -= n_more;
    }
}

static void divide_adaptive_layers(const struct division *d) {
    for (int first = 0; first < d->n_heads;) {
        const int last = layer_end(d, first);
        divide_adaptive(d, first, last);
        first = last;
    }
}

/* ---- foresight ---- */

bool wn_budget_by_contribution(enum wn_budget budget) {
    return budget == WN_BUDGET_FORESIGHT || budget == WN_BUDGET_REHEARSAL;
}

/* Heads of large total contribution get more than in proportion: T^(eta - 1), T over the entries
 * that compete, relative to the mean so that powers neither overflow nor vanish. */
static wn_status divide_foresight(struct division *d, struct wn_error *err) {
    double *factor = malloc((size_t)d->n_heads * sizeof *factor);
    if (factor == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "no memory to divide the budget among %d heads",
                            d->n_heads);
    }
    double total = 0.0;
    for (int h = 0; h < d->n_heads; h++) {
        const struct wn_protected *protect = &d->budget[h].protect;
        factor[h] = 0.0;
        for (int64_t i = protect->n_first; i < d->heads[h].n_entries - protect->n_last; i++) {
            factor[h] += d->score[h][i];
        }
        total += factor[h];
    }
    for (int h = 0; h < d->n_heads; h++) {
        const double relative = total > 0.0 ? factor[h] * d->n_heads / total : 1.0;
        factor[h] = relative > 0.0 ? pow(relative, d->policy->eta - 1.0) : 0.0;
    }
    d->factor = factor;
    d->safeguard = d->policy->head_floor;
    divide_adaptive(d, 0, d->n_heads);
    free(factor);
    return WN_OK;
}

/* ---- global ---- */

/* The heads that share one number of draws: those that lose entries. */
struct shared {
    int n_heads;
    int *head;                     /* [n_heads] their index among all */
    int64_t *n;                    /* [n_heads] entries that compete */
    double *weight;                /* [n_heads] of each in the mean, sum 1 */
    double *distinct;              /* [n_heads] E[J(m)], then its fraction */
    double *rate;                  /* [sum n] */
    int32_t *rounded_up, *scratch; /* [n_heads] */
};

static void shared_free(struct shared *shared) {
    free(shared->head);
    free(shared->n);
    free(shared->weight);
    free(shared->rate);
    free(shared->rounded_up);
}

static bool shared_init(const struct division *d, struct shared *shared) {
    const size_t n_heads = (size_t)d->n_heads;
    uint64_t total = 0;
    for (int h = 0; h < d->n_heads; h++) {
        total += (uint64_t)d->heads[h].n_entries;
    }
    *shared = (struct shared){
        .head = malloc(n_heads * sizeof *shared->head),
        .n = malloc(n_heads * sizeof *shared->n),
        .weight = malloc(2 * n_heads * sizeof *shared->weight),
        .rate = total <= SIZE_MAX / sizeof(double) ? malloc((size_t)total * sizeof(double)) : NULL,
        .rounded_up = malloc(2 * n_heads * sizeof *shared->rounded_up),
    };
    if (shared->head == NULL || shared->n == NULL || shared->weight == NULL ||
        shared->rate == NULL || shared->rounded_up == NULL) {
        shared_free(shared);
        return false;
    }
    shared->distinct = shared->weight + n_heads;
    shared->scratch = shared->rounded_up + n_heads;
    return true;
}

/*
 * Collects the heads that lose entries and their proposals; returns the weighted mean of what they
 * may draw. A budget in bytes weighs each head by the bytes of its entries, so that the expected
 * bytes are those of the budget.
 */
static double shared_fill(const struct division *d, struct shared *shared) {
    double total_weight = 0.0;
    double *rate = shared->rate;
    for (int h = 0; h < d->n_heads; h++) {
        const struct wn_protected *protect = &d->budget[h].protect;
        if (d->budget[h].k >= d->heads[h].n_entries) {
            continue;
        }
        const int s = shared->n_heads++;
        shared->head[s] = h;
        shared->n[s] = d->heads[h].n_entries - protect->n_first - protect->n_last;
        shared->weight[s] = d->policy->keep.kind == WN_KEEP_BYTES ? (double)d->entry_bytes[h] : 1.0;
        total_weight += shared->weight[s];
        wn_proposal(d->policy, d->score[h] + protect->n_first, shared->n[s], rate);
        wn_draws_rate(rate, shared->n[s], rate);
        rate += shared->n[s];
    }
    double mean = 0.0;
    for (int s = 0; s < shared->n_heads; s++) {
        const struct wn_head_budget *budget = &d->budget[shared->head[s]];
        shared->weight[s] /= total_weight;
        mean += shared->weight[s] * (double)(budget->k - n_protected(budget));
    }
    return mean;
}

/* Gives every head its protected entries and E[J(m)]: rounded down, and up for the largest
 * fractions, ties to the lower head, as long as the sum is not reached. */
static void round_distinct(const struct division *d, struct shared *shared) {
    double expected = 0.0;
    int64_t n_down = 0;
    for (int s = 0; s < shared->n_heads; s++) {
        struct wn_head_budget *budget = &d->budget[shared->head[s]];
        const double down = floor(shared->distinct[s]);
        expected += shared->distinct[s];
        shared->distinct[s] -= down;
        n_down += (int64_t)down;
        budget->k = n_protected(budget) + (int64_t)down;
    }
    const int64_t n_up = wn_min_i64((int64_t)rint(expected) - n_down, shared->n_heads);
    wn_select_topk(shared->distinct, 0, shared->n_heads, n_up, shared->rounded_up, shared->scratch);
    for (int64_t i = 0; i < n_up; i++) {
        d->budget[shared->head[shared->rounded_up[i]]].k++;
    }
}

/* Where proposals have fewer possible entries than the budget holds, the rest goes to the heads in
 * order: a top-k can use it. */
static void fill_up(const struct division *d, int64_t wanted) {
    for (int h = 0; h < d->n_heads; h++) {
        wanted -= d->budget[h].k;
    }
    for (int h = 0; h < d->n_heads && wanted > 0; h++) {
        const int64_t n_more = wn_min_i64(wanted, d->heads[h].n_entries - d->budget[h].k);
        d->budget[h].k += n_more;
        wanted -= n_more;
    }
}

/*
 * The heads' numbers come from the real root and not from m, so that their sum is exactly the
 * budgets'. A head that none is expected of keeps one entry, at the cost of the largest.
 */
static void share_draws(const struct division *d, struct shared *shared) {
    const double mean = shared_fill(d, shared);
    const struct wn_draw_heads draws = {
        .n_heads = shared->n_heads,
        .n = shared->n,
        .weight = shared->weight,
        .rate = shared->rate,
    };
    double root;
    const int64_t m = wn_draws_solve(&draws, mean, d->policy->draws, &root);
    const bool samples = d->policy->select == WN_SELECT_SAMPLE;
    for (int s = 0; s < shared->n_heads && samples; s++) {
        d->budget[shared->head[s]].n_draws = m;
    }
    if (m < 0) {
        return;
    }
    wn_draws_distinct(&draws, root, shared->distinct);
    int64_t mean_sum = 0;
    for (int h = 0; h < d->n_heads; h++) {
        mean_sum += d->budget[h].k;
    }
    round_distinct(d, shared);
    int64_t sum = 0;
    for (int h = 0; h < d->n_heads; h++) {
        sum += d->budget[h].k;
        d->budget[h].k = wn_max_i64(d->budget[h].k, wn_budget_floor(&d->heads[h], &d->budget[h]));
    }
    wn_budget_trim(d->heads, NULL, d->n_heads, sum, d->budget);
    if (!samples) {
        fill_up(d, mean_sum);
    }
}

static wn_status divide_global(const struct division *d, struct wn_error *err) {
    struct shared shared;
    if (!shared_init(d, &shared)) {
        return wn_error_set(err, WN_E_MEMORY, "no memory to share draws among %d heads",
                            d->n_heads);
    }
    share_draws(d, &shared);
    shared_free(&shared);
    return WN_OK;
}

/* ---- static ---- */

bool wn_budget_share_is_valid(const struct wn_head_view *head) {
    return head->share >= 0.0 && head->share <= DBL_MAX;
}

/* A head that takes part in the division by shares. */
struct part {
    double share;
    double least, most; /* entries that it may keep */
    double k;           /* those that it gets, before rounding */
    int64_t cost;       /* of an entry */
    int head;
    bool is_fixed; /* at one of its limits */
};

/* Gives each head not fixed lambda share_h entries, so that all cost as much as `wanted`. Where no
 * share is above 0, the same to each. */
static void spread(struct part *part, int n_heads, double wanted) {
    double largest = 0.0, total = 0.0;
    for (int h = 0; h < n_heads; h++) {
        largest = part[h].is_fixed ? largest : fmax(largest, part[h].share);
    }
    for (int h = 0; h < n_heads; h++) {
        if (part[h].is_fixed) {
            wanted -= (double)part[h].cost * part[h].k;
        } else {
            /* Relative to the largest, so that neither sums nor lambda overflow. */
            part[h].k = largest > 0.0 ? part[h].share / largest : 1.0;
            total += (double)part[h].cost * part[h].k;
        }
    }
    for (int h = 0; h < n_heads; h++) {
        part[h].k *= part[h].is_fixed ? 1.0 : wanted / total;
    }
}

/*
 * Spreads, and fixes the heads beyond their limits, until there are none. What was cut off on one
 * side changes lambda for the others; the side with more of it is beyond its limits all the more
 * after that change, so it alone is fixed.
 */
static void share_out(struct part *part, int n_heads, double wanted) {
    for (;;) {
        spread(part, n_heads, wanted);
        double below = 0.0, above = 0.0;
        for (int h = 0; h < n_heads; h++) {
            below += (double)part[h].cost * fmax(0.0, part[h].least - part[h].k);
            above += (double)part[h].cost * fmax(0.0, part[h].k - part[h].most);
        }
        if (below == 0.0 && above == 0.0) {
            return;
        }
        for (int h = 0; h < n_heads; h++) {
            const double k = part[h].k;
            const double limit = below >= above ? fmax(k, part[h].least) : fmin(k, part[h].most);
            part[h].is_fixed = part[h].is_fixed || k != limit;
            part[h].k = limit;
        }
    }
}

static int by_remainder(const void *a, const void *b) {
    const struct part *x = a, *y = b;
    const double rest_x = x->k - floor(x->k), rest_y = y->k - floor(y->k);
    if (rest_x != rest_y) {
        return rest_x > rest_y ? -1 : 1;
    }
    return x->head < y->head ? -1 : x->head > y->head;
}

/* Rounds down, and up for the largest remainders as long as that is paid for. */
static void round_parts(const struct division *d, struct part *part, int64_t wanted) {
    for (int h = 0; h < d->n_heads; h++) {
        d->budget[h].k = (int64_t)floor(part[h].k);
        wanted -= part[h].cost * d->budget[h].k;
    }
    qsort(part, (size_t)d->n_heads, sizeof *part, by_remainder);
    for (int i = 0; i < d->n_heads; i++) {
        int64_t *k = &d->budget[part[i].head].k;
        if (part[i].cost <= wanted && *k < d->heads[part[i].head].n_entries) {
            ++*k;
            wanted -= part[i].cost;
        }
    }
}

static wn_status divide_static(const struct division *d, struct wn_error *err) {
    for (int h = 0; h < d->n_heads; h++) {
        if (!wn_budget_share_is_valid(&d->heads[h])) {
            return wn_error_set(err, WN_E_ARG,
                                "layer %d, head %d: its share of the budget is not a finite number "
                                "of at least 0",
                                d->heads[h].layer, d->heads[h].head);
        }
    }
    struct part *part = malloc((size_t)d->n_heads * sizeof *part);
    if (part == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "no memory to divide the budget among %d heads",
                            d->n_heads);
    }
    int64_t wanted = 0;
    for (int h = 0; h < d->n_heads; h++) {
        part[h] = (struct part){
            .share = d->heads[h].share,
            .least = (double)wn_budget_floor(&d->heads[h], &d->budget[h]),
            .most = (double)d->heads[h].n_entries,
            .cost = d->policy->keep.kind == WN_KEEP_BYTES ? d->entry_bytes[h] : 1,
            .head = h,
        };
        wanted += part[h].cost * d->budget[h].k;
    }
    share_out(part, d->n_heads, (double)wanted);
    round_parts(d, part, wanted);
    free(part);
    return WN_OK;
}

/* ---- the division ---- */

static wn_status check_scores(const struct division *d, struct wn_error *err) {
    for (int h = 0; h < d->n_heads; h++) {
        if (d->heads[h].n_entries > 0 && (d->score == NULL || d->score[h] == NULL)) {
            return wn_error_set(err, WN_E_ARG, "budget: %s needs the scores of all heads",
                                wn_budget_name(d->policy->budget));
        }
    }
    return WN_OK;
}

wn_status wn_budget_divide(const struct wn_policy *policy, const struct wn_head_view *heads,
                           const double *const *score, const int64_t *entry_bytes, int n_heads,
                           struct wn_head_budget *budget, struct wn_error *err) {
    struct division d = {
        .policy = policy,
        .heads = heads,
        .score = score,
        .safeguard = policy->safeguard,
        .entry_bytes = entry_bytes,
        .n_heads = n_heads,
        .budget = budget,
    };
    switch (policy->budget) {
    case WN_BUDGET_HEAD:
        return WN_OK;
    case WN_BUDGET_PYRAMID:
        divide_pyramid(&d);
        return WN_OK;
    case WN_BUDGET_STATIC:
        return divide_static(&d, err);
    case WN_BUDGET_GLOBAL:
    case WN_BUDGET_ADAPTIVE:
    case WN_BUDGET_ADAPTIVE_MODEL:
    case WN_BUDGET_FORESIGHT:
    case WN_BUDGET_REHEARSAL:
        break;
    default:
        return wn_error_set(err, WN_E_ARG, "budget: %d is not one of its values",
                            (int)policy->budget);
    }
    const wn_status status = check_scores(&d, err);
    if (status != WN_OK) {
        return status;
    }
    if (policy->budget == WN_BUDGET_GLOBAL) {
        return divide_global(&d, err);
    }
    if (wn_budget_by_contribution(policy->budget)) {
        return divide_foresight(&d, err);
    }
    if (policy->budget == WN_BUDGET_ADAPTIVE) {
        divide_adaptive_layers(&d);
    } else {
        divide_adaptive(&d, 0, n_heads);
    }
    return WN_OK;
}
