/* SPDX-License-Identifier: MIT */
/*
 * What every policy keeps, draws and merges, as checksums that hold on every CPU: the table was made
 * on x86-64 and is checked for AArch64 too. The heads are made with additions and products alone,
 * since the C libraries of two machines need not agree in the last bit of a power.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>
#include <stdio.h>

enum { N_LAYERS = 3, N_KV = 2, N_HEADS = N_LAYERS * N_KV, GROUP = 2, N_MAX = 400, DIM = 48 };

static struct {
    float observed[GROUP * N_MAX], foreseen[N_MAX], rehearsed[N_MAX];
    float k_norm[N_MAX], v_norm[N_MAX], log_weight[N_MAX];
    float k[N_MAX * DIM], v[N_MAX * DIM];
} data[N_HEADS];

/* Attention that falls off faster in later heads. */
static float attention(struct wn_rng *rng, int head) {
    const double u = wn_rng_uniform(rng);
    double power = u;
    for (int i = 0; i <= head; i++) {
        power *= u;
    }
    return (float)power;
}

/* Heads of several lengths, the keys of each in eight clusters. */
static void make_heads(struct wn_head_view *views) {
    for (int h = 0; h < N_HEADS; h++) {
        const int n = N_MAX - 13 * h;
        struct wn_rng rng;
        wn_rng_seed(&rng, 7, (uint64_t)h, 0, 0);
        for (int i = 0; i < n; i++) {
            for (int g = 0; g < GROUP; g++) {
                data[h].observed[g * n + i] = attention(&rng, h);
            }
            data[h].foreseen[i] = attention(&rng, h);
            data[h].rehearsed[i] = attention(&rng, h);
            data[h].k_norm[i] = (float)(1.0 + wn_rng_uniform(&rng));
            data[h].v_norm[i] = (float)(0.5 + wn_rng_uniform(&rng));
            data[h].log_weight[i] = (float)(wn_rng_uniform(&rng) - 0.5);
            for (int c = 0; c < DIM; c++) {
                const double center = i < 8 ? 0.0 : (double)data[h].k[i % 8 * DIM + c];
                const double spread = i < 8 ? 1.0 : 0.8;
                data[h].k[i * DIM + c] = (float)(center + spread * (wn_rng_uniform(&rng) - 0.5));
                data[h].v[i * DIM + c] = (float)(wn_rng_uniform(&rng) - 0.5);
            }
        }
        views[h] = (struct wn_head_view){
            .n_entries = n,
            .n_tokens = n,
            .n_group = GROUP,
            .layer = h / N_KV,
            .head = h % N_KV,
            .d_k = DIM,
            .d_v = DIM,
            .observed = data[h].observed,
            .foreseen = data[h].foreseen,
            .rehearsed = data[h].rehearsed,
            .k_norm = data[h].k_norm,
            .v_norm = data[h].v_norm,
            .k = data[h].k,
            .v = data[h].v,
            .log_weight = data[h].log_weight,
            .share = 0.5 + 0.25 * h,
        };
    }
}

/* FNV-1a of the eight bytes of x, low first. */
static uint64_t add(uint64_t hash, int64_t x) {
    for (int i = 0; i < 8; i++) {
        hash = (hash ^ ((uint64_t)x >> 8 * i & 0xff)) * UINT64_C(0x100000001b3);
    }
    return hash;
}

struct outcome {
    uint64_t checksum;
    int64_t n_kept, n_merged;
    double log_weights; /* their sum */
};

static struct outcome outcome_of(const struct wn_plan *plan, const struct wn_head_view *views) {
    struct outcome out = {.checksum = UINT64_C(0xcbf29ce484222325), .n_merged = plan->n_merged};
    for (int h = 0; h < plan->n_heads; h++) {
        const struct wn_selection *s = &plan->head[h];
        out.n_kept += s->n_kept;
        out.checksum = add(add(out.checksum, s->n_kept), s->n_draws);
        for (int64_t i = 0; i < s->n_kept; i++) {
            out.checksum = add(out.checksum, s->idx[i]);
            out.checksum = s->count != NULL ? add(out.checksum, s->count[i]) : out.checksum;
            out.log_weights += (double)s->log_weight[i];
        }
        for (int64_t i = 0; s->assign != NULL && i < views[h].n_entries; i++) {
            out.checksum = add(out.checksum, s->assign[i]);
        }
    }
    return out;
}

/* Each score with top-k and with sampling, the other choices taking turns. */
static struct outcome plan_case(int score, enum wn_select select,
                                const struct wn_head_view *views) {
    struct wn_policy policy;
    struct wn_plan plan;
    struct wn_error err = {0};
    wn_policy_default(&policy, (enum wn_score)score);
    policy.fit = WN_FIT_NONE;
    policy.select = select;
    policy.keep.share = 0.25;
    policy.budget = (enum wn_budget)((score + 3 * (int)select) % WN_BUDGET_COUNT);
    policy.draws = score % 2 == 0 ? WN_DRAWS_NEAREST : WN_DRAWS_BISECT;
    policy.temperature = score % 3 == 0 ? 1.5 : 1.0;
    policy.seed = 5;
    policy.merge = score % 2 == 1;
    policy.merge_threshold = 0.7;
    if (wn_compress_plan(&policy, views, N_HEADS, NULL, &plan, &err) != WN_OK) {
        fail_msg("%s: %s", wn_score_name(policy.score), err.message);
    }
    const struct outcome out = outcome_of(&plan, views);
    wn_plan_free(&plan);
    return out;
}

static const struct outcome expected[WN_SCORE_COUNT][WN_SELECT_COUNT] = {
    [WN_SCORE_FULL] = {{0xd743e84d40efc9e8, 2205, 0, 10.3652232},
                       {0xd743e84d40efc9e8, 2205, 0, 10.3652232}},
    [WN_SCORE_RANDOM] = {{0x110ca5c50e7dd05e, 549, 1374, 314.542038},
                         {0x199a1af6b3ee1e0f, 548, 1348, 913.26966}},
    [WN_SCORE_STREAMING] = {{0x6357d5839d39af14, 549, 0, 3.1623821},
                            {0x1af08d7e32384ece, 549, 0, 509.554654}},
    [WN_SCORE_K_NORM] = {{0x0d2420b015d030cb, 549, 1333, 295.451275},
                         {0x3c0d1178e79ce576, 544, 1298, 856.75471}},
    [WN_SCORE_V_NORM] = {{0xad9f0b1d99e68aba, 549, 0, -5.73418631},
                         {0x77dd7bee218f42ca, 550, 0, 484.279123}},
    [WN_SCORE_TOVA] = {{0x6d3c1212329c12bd, 549, 1322, 308.397736},
                       {0xcfa2a80c9da3ff5b, 544, 1353, 836.008082}},
    [WN_SCORE_SNAPKV] = {{0x1b11a9e567e6b632, 549, 0, -0.210191391},
                         {0x7145bf912fcce59b, 552, 0, 352.96821}},
    [WN_SCORE_PYRAMIDKV] = {{0xe2abeb90d56adfa8, 549, 1290, 315.831404},
                            {0x370673d89bddd9c8, 548, 1323, 662.093}},
    [WN_SCORE_H2O] = {{0xf6936986f0e22af8, 549, 0, 6.2606435},
                      {0xefdd60c0d432bf32, 558, 0, 461.152181}},
    [WN_SCORE_H2O_H] = {{0xbd4031db9047acb4, 549, 1372, 304.896436},
                        {0xe71798b5cf55c1b5, 549, 1323, 800.268078}},
    [WN_SCORE_H2O_MEAN] = {{0x01bb9861a863b8f8, 549, 0, 1.974942},
                           {0x961c3138ebb7e783, 564, 0, 411.209431}},
    [WN_SCORE_EXPOSURE] = {{0x16990a62341a7f2c, 549, 1353, 312.407856},
                           {0x722a465c48f9a5ef, 553, 1310, 748.011868}},
    [WN_SCORE_MIN] = {{0xa8b4f0a573c8e91b, 549, 0, 7.72391001},
                      {0x481ff42a5f6288ce, 554, 0, 384.638857}},
    [WN_SCORE_MIN_C] = {{0xd187588c9444c27b, 549, 1346, 300.36054},
                        {0x2b890d9b0b02411b, 552, 1329, 767.787912}},
    [WN_SCORE_MIN_H] = {{0x201efc900ad1a586, 549, 0, 5.89161034},
                        {0x06766e1c048c7bca, 552, 0, 447.254289}},
    [WN_SCORE_FORESIGHT] = {{0xe2c734df04658328, 549, 1339, 266.57124},
                            {0x08ddd8e4d353803e, 550, 1326, 877.197193}},
    [WN_SCORE_REHEARSAL] = {{0xf82cf22268ceadf6, 549, 0, -3.19259721},
                            {0xeca3bd93645651e9, 553, 0, 575.583892}},
};

static void every_machine_keeps_the_same(void **state) {
    (void)state;
    struct wn_head_view views[N_HEADS];
    make_heads(views);
    int n_different = 0;
    for (int score = 0; score < WN_SCORE_COUNT; score++) {
        for (int select = 0; select < WN_SELECT_COUNT; select++) {
            const struct outcome *e = &expected[score][select];
            const struct outcome out = plan_case(score, (enum wn_select)select, views);
            if (out.checksum != e->checksum || out.n_kept != e->n_kept ||
                out.n_merged != e->n_merged || !(fabs(out.log_weights - e->log_weights) < 1e-4)) {
                n_different++;
                print_error("%s, select %d: {0x%016llx, %lld, %lld, %.9g}\n",
                            wn_score_name((enum wn_score)score), select,
                            (unsigned long long)out.checksum, (long long)out.n_kept,
                            (long long)out.n_merged, out.log_weights);
            }
        }
    }
    assert_int_equal(n_different, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_machine_keeps_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
