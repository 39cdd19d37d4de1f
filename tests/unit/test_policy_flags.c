/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/policy_flags.h"
#include "cli/policy_text.h"
#include "plan_case.h"

#include <math.h>
#include <string.h>

static const struct wn_flag_part parts[] = {
    {wn_policy_common, WN_POLICY_N_COMMON, 0},
    {wn_policy_fine, WN_POLICY_N_FINE, 0},
};
static const struct wn_flag_table table = {
    .command = "test", .usage = "", .about = "", .parts = parts, .n_parts = 2};

static struct wn_policy_flags flags;
static struct wn_flags_given given;
static struct wn_policy policy;
static struct wn_error err;

/* Parses the words of a line and makes the policy. */
static wn_status parse(const char *line) {
    char words[1024];
    char *argv[64];
    int argc = 0;
    snprintf(words, sizeof words, "test %s", line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    memset(&err, 0, sizeof err);
    flags = (struct wn_policy_flags){0};
    wn_status status = wn_args_parse(&table, argc, argv, &flags, &given, &err);
    return status == WN_OK ? wn_policy_flags_make(&flags, &table, &given, &policy, &err) : status;
}

static void accept(const char *line) {
    if (parse(line) != WN_OK) {
        fail_msg("'%s' is refused: %s", line, err.message);
    }
}

static bool fallback_of(const char *line, struct wn_policy *fallback) {
    accept(line);
    return wn_policy_flags_fallback(&flags, &table, &given, fallback);
}

static void refuse(const char *line, const char *part) {
    assert_int_equal(parse(line), WN_E_ARG);
    if (strstr(err.message, part) == NULL) {
        fail_msg("'%s' gives '%s', not '%s'", line, err.message, part);
    }
    assert_null(strchr(err.message, '\n'));
}

static void rows_are_complete(void **state) {
    (void)state;
    assert_int_equal(wn_args_count(&table), WN_POLICY_N_COMMON + WN_POLICY_N_FINE);
    for (int p = 0; p < 2; p++) {
        for (int i = 0; i < parts[p].n_flags; i++) {
            assert_non_null(parts[p].flags[i].name);
            assert_non_null(parts[p].flags[i].help);
        }
    }
}

/* Without flags every score's policy is the library's default for it. */
static void defaults_are_the_score_s(void **state) {
    (void)state;
    struct wn_policy usual;
    for (int score = 0; score < WN_SCORE_COUNT; score++) {
        char line[64];
        snprintf(line, sizeof line, "--policy %s", wn_score_name((enum wn_score)score));
        accept(line);
        wn_policy_default(&usual, (enum wn_score)score);
        assert_int_equal(policy.score, score);
        assert_int_equal(policy.window, usual.window);
        assert_int_equal(policy.pool, usual.pool);
        assert_int_equal(policy.kernel, usual.kernel);
        assert_int_equal(policy.group, usual.group);
        assert_int_equal(policy.budget, usual.budget);
        assert_int_equal(policy.select, usual.select);
        assert_int_equal(policy.sink, usual.sink);
        assert_int_equal(policy.recent, usual.recent);
        assert_int_equal(policy.merge, usual.merge);
        assert_int_equal(policy.fit, usual.fit);
        assert_true(policy.ridge == usual.ridge && policy.eta == usual.eta);
        assert_true(policy.head_floor == usual.head_floor);
    }
    accept("");
    assert_int_equal(policy.score, WN_SCORE_FORESIGHT);
    assert_int_equal(policy.budget, WN_BUDGET_FORESIGHT);
}

/* What the help shows as a flag's default is what the library uses. */
static void presets_are_the_library_s(void **state) {
    (void)state;
    char words[] = "test";
    char *argv[] = {words, NULL};
    flags = (struct wn_policy_flags){0};
    struct wn_policy usual;
    assert_int_equal(wn_args_parse(&table, 1, argv, &flags, &given, &err), WN_OK);
    wn_policy_default(&usual, WN_SCORE_FORESIGHT);
    assert_int_equal(flags.score, WN_SCORE_FORESIGHT);
    assert_int_equal(flags.keep.kind, usual.keep.kind);
    assert_true(flags.keep.share == usual.keep.share);
    assert_int_equal(flags.group.group, usual.group);
    assert_int_equal(flags.exposure, usual.exposure);
    assert_int_equal(flags.temper, usual.temper);
    assert_int_equal(flags.draws, usual.draws);
    assert_int_equal(flags.merge_key, usual.merge_key);
    assert_int_equal(flags.merge_value, usual.merge_value);
    assert_true(flags.tau == usual.tau && flags.gamma == usual.gamma && flags.mix == usual.mix);
    assert_true(flags.temperature == usual.temperature);
    assert_true(flags.safeguard == usual.safeguard && flags.beta == usual.beta);
    assert_true(flags.head_floor == usual.head_floor);
    assert_int_equal(flags.sink, usual.sink);
    assert_int_equal(flags.recent, usual.recent);
    assert_int_equal(flags.seed, usual.seed);
}

static void every_flag_sets_its_field(void **state) {
    (void)state;
    accept("--policy exposure --keep 512 --select sample --budget adaptive-model --merge -0.25 "
           "--tau 2 --sink 3 --recent 7 --seed 4294967295 --group max --window 17 --gamma 1.5 "
           "--exposure clipped --pool avg --kernel 9 --proposal-temp 0.5 --temper softmax "
           "--mix 0.75 --draws bisect --safeguard 0.1 --beta 8 --merge-key mean "
           "--merge-value keep --fit v --ridge 0.5 --eta 2.5 --head-floor 0.3");
    assert_int_equal(policy.score, WN_SCORE_EXPOSURE);
    assert_int_equal(policy.keep.kind, WN_KEEP_TOKENS);
    assert_int_equal(policy.keep.tokens, 512);
    assert_int_equal(policy.select, WN_SELECT_SAMPLE);
    assert_int_equal(policy.budget, WN_BUDGET_ADAPTIVE_MODEL);
    assert_true(policy.merge && policy.merge_threshold == -0.25);
    assert_true(policy.tau == 2);
    assert_int_equal(policy.sink, 3);
    assert_int_equal(policy.recent, 7);
    assert_true(policy.seed == 4294967295u);
    assert_int_equal(policy.group, WN_GROUP_MAX);
    assert_int_equal(policy.window, 17);
    assert_true(policy.gamma == 1.5);
    assert_int_equal(policy.exposure, WN_EXPOSURE_CLIPPED);
    assert_int_equal(policy.pool, WN_POOL_AVG);
    assert_int_equal(policy.kernel, 9);
    assert_true(policy.temperature == 0.5);
    assert_int_equal(policy.temper, WN_TEMPER_SOFTMAX);
    assert_true(policy.mix == 0.75);
    assert_int_equal(policy.draws, WN_DRAWS_BISECT);
    assert_true(policy.safeguard == 0.1 && policy.beta == 8);
    assert_int_equal(policy.merge_key, WN_MERGE_MEAN);
    assert_int_equal(policy.merge_value, WN_MERGE_KEEP);
    assert_int_equal(policy.fit, WN_FIT_VALUES);
    assert_true(policy.ridge == 0.5 && policy.eta == 2.5 && policy.head_floor == 0.3);
    accept("--policy rehearsal --fit none --budget foresight");
    assert_int_equal(policy.fit, WN_FIT_NONE);
    assert_int_equal(policy.budget, WN_BUDGET_FORESIGHT);
    accept("--policy snapkv --fit bv --budget rehearsal");
    assert_int_equal(policy.fit, WN_FIT_BOTH);
    assert_int_equal(policy.budget, WN_BUDGET_REHEARSAL);
    accept("--fit b");
    assert_int_equal(policy.fit, WN_FIT_LOG_WEIGHTS);
    accept("--tau inf --budget global --select topk");
    assert_true(isinf(policy.tau));
    assert_int_equal(policy.budget, WN_BUDGET_GLOBAL);
    assert_int_equal(policy.select, WN_SELECT_TOPK);
    accept("--merge 1 --keep 64MiB");
    assert_true(policy.merge && policy.merge_threshold == 1);
    assert_int_equal(policy.keep.bytes, 64 << 20);
}

static void windows(void **state) {
    (void)state;
    accept("--policy exposure --window all");
    assert_int_equal(policy.window, WN_WINDOW_ALL);
    accept("--policy min-h --window 65536");
    assert_int_equal(policy.window, 65536);
    refuse("--window 0", "--window '0' is refused (out of range; give all or 1 to 65536)");
    refuse("--window 65537", "--window '65537' is refused");
    refuse("--window auto", "--window 'auto' is refused");
    refuse("--policy snapkv --window all", "--window: snapkv ");
    refuse("--policy pyramidkv --window all", "--window: pyramidkv ");
}

static void kernels(void **state) {
    (void)state;
    accept("--policy snapkv");
    assert_int_equal(policy.kernel, 5);
    accept("--policy snapkv --pool max");
    assert_int_equal(policy.kernel, 7);
    accept("--policy snapkv --kernel 3 --pool max");
    assert_int_equal(policy.kernel, 3);
    accept("--policy snapkv --pool avg");
    assert_int_equal(policy.kernel, 5);
    refuse("--policy snapkv --kernel 4", "--kernel: 4 is not an odd number");
}

static void group_weights(void **state) {
    (void)state;
    accept("--group 0.5,0.25,0.25");
    assert_int_equal(policy.group, WN_GROUP_WEIGHTS);
    assert_int_equal(policy.n_group_weights, 3);
    assert_true(policy.group_weight[0] == 0.5 && policy.group_weight[1] == 0.25 &&
                policy.group_weight[2] == 0.25);
    accept("--group 1");
    assert_int_equal(policy.n_group_weights, 1);
    accept("--group 0,1e0,0");
    assert_int_equal(policy.n_group_weights, 3);
    accept("--group 0.3,0.7 --group mean");
    assert_int_equal(policy.group, WN_GROUP_MEAN);
    assert_int_equal(policy.n_group_weights, 0);

    refuse("--group 0.5,0.4", "--group: the weights sum to 0.9");
    static const char *const bad[] = {
        "meen", "weights", "0.5,", ",0.5", "0.5,,0.5", "0.5;0.5",
        "nan",  "inf",     "0x1",  ",",    "-0.5,1.5", "0.50000000000000000000000000000000",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char line[96];
        snprintf(line, sizeof line, "--group %s", bad[i]);
        refuse(line, "is neither mean, nor max, nor weights of at least 0 like 0.5,0.3,0.2");
    }
    refuse("--group=", "--group is refused");
    char line[512] = "--group 1";
    for (int i = 1; i < WN_GROUP_WEIGHTS_MAX; i++) {
        strcat(line, ",0");
    }
    accept(line);
    assert_int_equal(policy.n_group_weights, WN_GROUP_WEIGHTS_MAX);
    strcat(line, ",0");
    refuse(line, "--group is refused (more than 64 weights)");
}

static void ranges_are_refused_by_the_flag_s_name(void **state) {
    (void)state;
    static const struct {
        const char *line, *part;
    } refused[] = {
        {"--keep 0", "--keep is refused"},
        {"--tau 0", "--tau '0' is refused (out of range; give above 0, or inf)"},
        {"--mix 1.01", "--mix '1.01' is refused (out of range; give 0 to 1)"},
        {"--mix -0.1", "--mix '-0.1' is refused"},
        {"--proposal-temp 0", "--proposal-temp '0' is refused"},
        {"--proposal-temp inf", "--proposal-temp 'inf' is refused"},
        {"--gamma -1", "--gamma '-1' is refused"},
        {"--gamma inf", "--gamma 'inf' is refused (not a finite number; give 0 to 100)"},
        {"--gamma nan", "--gamma 'nan' is refused"},
        {"--safeguard 2", "--safeguard '2' is refused"},
        {"--beta 0.5", "--beta '0.5' is refused (out of range; give 1 to 10000)"},
        {"--fit vb", "unknown fit 'vb' (did you mean bv?)"},
        {"--fit everything", "unknown fit 'everything' (choose from none, b, v, bv)"},
        {"--fit=", "unknown fit ''"},
        {"--ridge 0", "--ridge '0' is refused (out of range; give above 0, up to 1000)"},
        {"--ridge nan", "--ridge 'nan' is refused"},
        {"--eta -1", "--eta '-1' is refused (out of range; give 0 to 10)"},
        {"--eta 10.5", "--eta '10.5' is refused"},
        {"--head-floor 1.5", "--head-floor '1.5' is refused (out of range; give 0 to 1)"},
        {"--head-floor -0.1", "--head-floor '-0.1' is refused"},
        {"--merge 1.1", "--merge '1.1' is refused (out of range; give -1 to 1)"},
        {"--merge", "--merge needs a value"},
        {"--sink -1", "--sink '-1' is refused"},
        {"--recent -1", "--recent '-1' is refused"},
        {"--seed 4294967296", "--seed '4294967296' is refused"},
        {"--budget heads", "unknown budget 'heads' (did you mean head?)"},
        {"--budget adaptiv", "unknown budget 'adaptiv' (did you mean adaptive?)"},
        {"--policy bogus", "unknown policy 'bogus' (choose from full, "},
        {"--exposure old", "unknown exposure 'old' (choose from age, clipped)"},
        {"--temper hot", "unknown temper 'hot' (choose from power, softmax)"},
        {"--draws many", "unknown draws 'many' (choose from nearest, bisect)"},
        {"--merge-key sum", "unknown merge-key 'sum' (choose from keep, mean)"},
        {"--merge-value sum", "unknown merge-value 'sum' (choose from keep, mean)"},
        {"--pool sum", "unknown pool 'sum' (choose from none, avg, max)"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        refuse(refused[i].line, refused[i].part);
    }
    /* The list of names is not cut. */
    char end[64];
    snprintf(end, sizeof end, ", %s)", wn_score_name((enum wn_score)(WN_SCORE_COUNT - 1)));
    refuse("--policy bogus", end);
}

/* The library's sentences name fields; every field that is not called like its flag is translated.
 */
static void fields_are_called_like_their_flags(void **state) {
    (void)state;
    flags = (struct wn_policy_flags){0};
    char words[] = "test";
    char *argv[] = {words, NULL};
    assert_int_equal(wn_args_parse(&table, 1, argv, &flags, &given, &err), WN_OK);
    static const struct {
        const char *flag, *sentence;
    } rows[] = {
        {"proposal-temp", "--proposal-temp: "},
        {"merge", "--merge: "},
        {"merge-key", "--merge-key: "},
        {"group", "--group: "},
        {"beta", "--beta: "},
        {"eta", "--eta: "},
        {"head-floor", "--head-floor: "},
        {"ridge", "--ridge: "},
        {"fit", "--fit: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        /* Values that no line can hold, as if the flag had been given. */
        struct wn_policy_flags broken = flags;
        broken.temperature = broken.merge_threshold = broken.beta = -7;
        broken.eta = broken.head_floor = broken.ridge = -7;
        broken.merge_key = broken.fit = 99;
        broken.group = (struct wn_group_flag){.group = WN_GROUP_WEIGHTS, .n_weights = 0};
        struct wn_flags_given line = {0};
        line.row[wn_args_find(&table, rows[i].flag)] = true;
        assert_int_equal(wn_policy_flags_make(&broken, &table, &line, &policy, &err), WN_E_ARG);
        if (strncmp(err.message, rows[i].sentence, strlen(rows[i].sentence)) != 0) {
            fail_msg("'%s' does not begin with '%s'", err.message, rows[i].sentence);
        }
    }
    flags.score = WN_SCORE_COUNT;
    struct wn_flags_given none = {0};
    assert_int_equal(wn_policy_flags_make(&flags, &table, &none, &policy, &err), WN_E_ARG);
    assert_true(strncmp(err.message, "--policy: ", 10) == 0);
}

/* What min-h can do in place of a default that the model does not suit. */
static void fallback_of_a_policy_that_was_not_named(void **state) {
    (void)state;
    static const struct {
        const char *line;
        bool has_fallback;
    } rows[] = {
        {"", true},
        {"--keep 10% --sink 2 --merge 0.7 --seed 3", true},
        {"--budget adaptive --window 9 --fit none", true},
        {"--policy foresight", false},
        {"--policy min-h", false},
        {"--policy rehearsal", false},
        {"--budget foresight", false},
        {"--budget rehearsal", false},
        {"--fit b", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wn_policy fallback;
        if (fallback_of(rows[i].line, &fallback) != rows[i].has_fallback) {
            fail_msg("'%s' has %s fallback", rows[i].line, rows[i].has_fallback ? "no" : "a");
        }
    }
    struct wn_policy fallback, usual;
    assert_true(fallback_of("--keep 99 --tau 2", &fallback));
    wn_policy_default(&usual, WN_SCORE_MIN_H);
    assert_int_equal(fallback.score, WN_SCORE_MIN_H);
    assert_int_equal(fallback.select, usual.select);
    assert_int_equal(fallback.budget, usual.budget);
    assert_int_equal(fallback.keep.tokens, 99);
    assert_true(fallback.tau == 2);
}

/* ---- warnings ---- */

/* Of the line that was accepted last. */
static void read_warnings(bool seed_has_other_use, char *text, size_t text_bytes) {
    FILE *out = tmpfile();
    assert_non_null(out);
    wn_policy_flags_warn(&policy, &table, &given, seed_has_other_use, out);
    rewind(out);
    text[fread(text, 1, text_bytes - 1, out)] = '\0';
    fclose(out);
}

static void expect_warnings(const char *line, bool seed_has_other_use, const char *expected) {
    char text[4096];
    accept(line);
    read_warnings(seed_has_other_use, text, sizeof text);
    assert_string_equal(text, expected);
}

#define NO_QUERIES      "only policies that observe the prompt's queries use it"
#define NO_NEED         "only the budgets foresight and rehearsal use it"
#define NO_PROPOSAL     "nothing is sampled; add --select sample, or divide with --budget global"
#define IDLE(flag, why) "winnow: warning: --" flag " has no effect (" why ")\n"

static void flags_without_effect(void **state) {
    (void)state;
    static const struct {
        const char *line, *expected;
    } rows[] = {
        {"", ""},
        {"--policy full", ""},
        {"--policy min-h --tau 2 --mix 0.5 --proposal-temp 2 --temper softmax --draws bisect "
         "--seed 1",
         ""},
        {"--select sample --tau 2 --mix 0.5 --seed 1", ""},
        {"--pool avg --kernel 3 --eta 2 --head-floor 0.5", ""},
        {"--policy h2o --group max --budget foresight", ""},
        {"--policy rehearsal --eta 2 --head-floor 0.5 --ridge 1", ""},
        {"--group max",
         IDLE("group", "only policies that observe the prompt's queries use it, and the policy is "
                       "foresight")},
        {"--policy h2o --budget foresight --eta 2 --head-floor 0.5", ""},
        {"--policy h2o --budget rehearsal --eta 2 --head-floor 0.5", ""},
        {"--policy snapkv --fit v --ridge 1", ""},
        {"--fit bv --ridge 1", ""},
        {"--policy exposure --gamma 1 --exposure clipped --window 9 --group max", ""},
        {"--policy snapkv --kernel 3 --pool max --window 9", ""},
        {"--budget adaptive --safeguard 0.5", ""},
        {"--budget adaptive-model --safeguard 0.5", ""},
        {"--policy pyramidkv --beta 4", ""},
        {"--merge 0.5 --merge-key mean --merge-value keep", ""},
        {"--policy random --seed 2", ""},
        {"--policy h2o --pool avg --kernel 3", ""},
        {"--gamma 1", IDLE("gamma", "only exposure uses it, and the policy is foresight")},
        {"--exposure age", IDLE("exposure", "only exposure uses it, and the policy is foresight")},
        {"--window 9", IDLE("window", NO_QUERIES ", and the policy is foresight")},
        {"--tau 2", IDLE("tau", "only sampled entries are corrected; add --select sample")},
        {"--policy h2o --eta 2 --head-floor 0.5", IDLE("eta", NO_NEED) IDLE("head-floor", NO_NEED)},
        {"--budget adaptive --eta 2", IDLE("eta", NO_NEED)},
        {"--policy k-norm --budget foresight --group max",
         IDLE("group", "only policies that observe the prompt's queries use it, and the policy is "
                       "k-norm")},
        {"--fit none --ridge 1", IDLE("ridge", "no values are fitted; add --fit v or --fit bv")},
        {"--fit b --ridge 1", IDLE("ridge", "no values are fitted; add --fit v or --fit bv")},
        {"--policy rehearsal --fit none --ridge 1",
         IDLE("ridge", "no values are fitted; add --fit v or --fit bv")},
        {"--policy exposure --exposure clipped",
         IDLE("exposure", "with --gamma 0 nothing is divided by age")},
        {"--policy k-norm --window 4", IDLE("window", NO_QUERIES ", and the policy is k-norm")},
        {"--policy tova --window 4",
         IDLE("window", "only policies that look beyond the last query use it, and the policy is "
                        "tova")},
        {"--policy min-c --window all",
         IDLE("window", "only policies that look beyond the last query use it, and the policy is "
                        "min-c")},
        {"--policy streaming --group max",
         IDLE("group", "only policies that observe the prompt's queries use it, and the policy is "
                       "streaming")},
        {"--policy tova --group max", IDLE("group", "tova averages over all heads of a layer")},
        {"--kernel 3", IDLE("kernel", "scores are not pooled; add --pool avg or --pool max")},
        {"--policy h2o --tau 2",
         IDLE("tau", "only sampled entries are corrected; add --select sample")},
        {"--policy h2o --mix 0.5", IDLE("mix", NO_PROPOSAL)},
        {"--policy h2o --budget global --mix 0.5 --proposal-temp 2 --temper softmax", ""},
        {"--policy h2o --budget global --draws bisect",
         IDLE("draws", "nothing is sampled; add --select sample")},
        {"--select topk --proposal-temp 2 --temper power --draws nearest",
         IDLE("proposal-temp", NO_PROPOSAL) IDLE("temper", NO_PROPOSAL)
             IDLE("draws", "nothing is sampled; add --select sample")},
        {"--safeguard 0.5",
         IDLE("safeguard", "only the budgets adaptive and adaptive-model use it")},
        {"--beta 5", IDLE("beta", "only the budget pyramid uses it")},
        {"--merge-key mean --merge-value keep",
         IDLE("merge-key", "nothing is merged; add --merge 0.8")
             IDLE("merge-value", "nothing is merged; add --merge 0.8")},
        {"--policy full --keep 3 --sink 0 --gamma 1",
         IDLE("keep", "the policy full keeps everything")
             IDLE("sink", "the policy full keeps everything")
                 IDLE("gamma", "the policy full keeps everything")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_warnings(rows[i].line, false, rows[i].expected);
    }
    expect_warnings("--policy h2o --seed 1", false, IDLE("seed", "nothing is drawn"));
    expect_warnings("--policy h2o --seed 1", true, "");
    expect_warnings("--policy full --seed 1", true, "");
    expect_warnings("--policy full --seed 1", false,
                    IDLE("seed", "the policy full keeps everything"));
    expect_warnings("--sink 0", false,
                    "winnow: warning: --sink 0 lets the first positions be evicted (models park "
                    "attention there, and often write garbage without them; leave --sink at "
                    "auto)\n");
}

enum { N_LAYERS = 2, N_KV = 2, N_HEADS = N_LAYERS * N_KV, N = 200 };

/* The plan of a line over heads whose attention falls off differently fast. */
static struct wn_plan plan_line(const char *line) {
    static struct head_data data[N_HEADS];
    struct wn_head_view views[N_HEADS];
    accept(line);
    for (int h = 0; h < N_HEADS; h++) {
        head_init(&data[h], N, 2, h / N_KV, h % N_KV);
        for (int i = 0; i < 2 * N; i++) {
            data[h].observed[i] = powf(data[h].observed[i], 1.0f + 2.0f * (float)h);
            data[h].foreseen[i] = powf(data[h].foreseen[i], 1.0f + 2.0f * (float)h);
        }
        views[h] = data[h].view;
    }
    return plan_of(&policy, views, N_HEADS);
}

static bool plans_are_equal(const struct wn_plan *a, const struct wn_plan *b) {
    for (int h = 0; h < N_HEADS; h++) {
        const struct wn_selection *x = &a->head[h], *y = &b->head[h];
        if (x->n_kept != y->n_kept ||
            memcmp(x->idx, y->idx, (size_t)x->n_kept * sizeof *x->idx) != 0) {
            return false;
        }
    }
    return true;
}

/* What is said to have no effect leaves the plan as it was, and what is not changes it. */
static void warnings_are_true(void **state) {
    (void)state;
    static const struct {
        const char *line, *flag;
        bool has_effect;
    } rows[] = {
        {"--policy tova", "--group max", false},
        {"--policy tova", "--group 0.9,0.1", false},
        {"--policy h2o", "--group max", true},
        {"--policy h2o", "--group 0.9,0.1", true},
        {"--policy h2o", "--mix 0.5", false},
        {"--policy h2o", "--proposal-temp 3", false},
        {"--policy h2o", "--temper softmax", false},
        {"--policy h2o --budget adaptive-model", "--mix 0.5", false},
        {"--policy h2o --budget global", "--mix 0.5", true},
        {"--policy h2o --budget global", "--proposal-temp 3", true},
        {"--policy h2o --budget global", "--temper softmax", true},
        {"--policy h2o --budget global", "--draws bisect", false},
        {"--policy h2o --select sample", "--mix 0.5", true},
        {"--policy foresight", "--group max", false},
        {"--policy foresight", "--window 9", false},
        {"--policy foresight", "--eta 3", true},
        {"--policy foresight", "--head-floor 1", true},
        {"--policy foresight", "--safeguard 0.9", false},
        {"--policy foresight --fit none", "--ridge 1", false},
        {"--policy foresight --budget adaptive", "--eta 3", false},
        {"--policy foresight --budget adaptive", "--head-floor 1", false},
        {"--policy h2o --budget foresight", "--eta 3", true},
        {"--policy h2o --budget foresight", "--group max", true},
        {"--policy k-norm --budget foresight", "--group max", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[128], text[512];
        struct wn_plan without = plan_line(rows[i].line);
        snprintf(line, sizeof line, "%s %s", rows[i].line, rows[i].flag);
        struct wn_plan with = plan_line(line);
        if (plans_are_equal(&without, &with) == rows[i].has_effect) {
            fail_msg("'%s' changes %s", line, rows[i].has_effect ? "nothing" : "the plan");
        }
        read_warnings(false, text, sizeof text);
        if ((strstr(text, "has no effect") == NULL) != rows[i].has_effect) {
            fail_msg("'%s' warns '%s'", line, text);
        }
        wn_plan_free(&without);
        wn_plan_free(&with);
    }
}

/* ---- the policy as text ---- */

static void policy_as_text(void **state) {
    (void)state;
    static const struct {
        const char *line, *text;
    } rows[] = {
        {"", "foresight, keep 20%, select topk, group mean, sink auto, recent auto, budget "
             "foresight, fit bv"},
        {"--policy min-h",
         "min-h, keep 20%, select sample (tau 1, seed 0), group mean, sink auto, recent auto"},
        {"--policy rehearsal --eta 2 --head-floor 0.2 --ridge 0.5",
         "rehearsal, keep 20%, select topk, group mean, sink auto, recent auto, budget rehearsal "
         "(eta 2, floor 0.2), fit bv (ridge 0.5)"},
        {"--policy rehearsal --head-floor 0.2 --fit b --ridge 0.5",
         "rehearsal, keep 20%, select topk, group mean, sink auto, recent auto, budget rehearsal "
         "(floor 0.2), fit b"},
        {"--eta 0.5 --fit v",
         "foresight, keep 20%, select topk, group mean, sink auto, recent auto, budget foresight "
         "(eta 0.5), fit v"},
        {"--budget head --eta 2 --ridge 3",
         "foresight, keep 20%, select topk, group mean, sink auto, recent auto, fit bv "
         "(ridge 3)"},
        {"--policy full --keep 3", "full"},
        {"--policy snapkv --sink 2 --recent 9",
         "snapkv, keep 20%, select topk, group mean, sink 2, recent 9, window 64, avg pool of 5"},
        {"--policy pyramidkv --pool none",
         "pyramidkv, keep 20%, select topk, group mean, sink auto, recent auto, window 64, "
         "budget pyramid (beta 20)"},
        {"--policy exposure --window all --group 0.5,0.5 --budget adaptive --keep 512",
         "exposure, keep 512, select topk, group 0.5,0.5, sink auto, recent auto, window all, "
         "gamma 0, budget adaptive (safeguard 0.2)"},
        {"--policy exposure --gamma 1 --exposure clipped",
         "exposure, keep 20%, select topk, group mean, sink auto, recent auto, window 32, "
         "gamma 1 of clipped"},
        {"--policy min-h --tau inf --seed 7 --mix 0.9 --proposal-temp 2 --draws bisect --merge "
         "0.8 --window 9 --budget global",
         "min-h, keep 20%, select sample (tau inf, seed 7, proposal power at 2, mix 0.9, "
         "draws bisect), group mean, sink auto, recent auto, window 9, budget global, "
         "merge above 0.8 (key keep, value mean)"},
        {"--policy h2o --proposal-temp 2 --mix 0.9",
         "h2o, keep 20%, select topk, group mean, sink auto, recent auto"},
        {"--policy h2o --budget global",
         "h2o, keep 20%, select topk, group mean, sink auto, recent auto, budget global"},
        {"--policy h2o --proposal-temp 2 --mix 0.9 --budget global",
         "h2o, keep 20%, select topk, group mean, sink auto, recent auto, budget global (proposal "
         "power at 2, mix 0.9)"},
        {"--policy h2o --mix 0.9 --budget global",
         "h2o, keep 20%, select topk, group mean, sink auto, recent auto, budget global (mix 0.9)"},
        {"--policy min --window 9 --select topk",
         "min, keep 20%, select topk, group mean, sink auto, recent auto"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        accept(rows[i].line);
        char text[512];
        FILE *out = tmpfile();
        assert_non_null(out);
        wn_policy_print(&policy, out);
        rewind(out);
        text[fread(text, 1, sizeof text - 1, out)] = '\0';
        fclose(out);
        assert_string_equal(text, rows[i].text);
    }
}

/* Of 717 tokens 20 % are 143, whose smallest budget is floor(143 / 20) = 7 by default. */
static void pyramids_that_are_flat(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int64_t n_kept;
        bool is_flat;
    } rows[] = {
        {"--policy pyramidkv", 143, true},           /* 4 sinks and a window of 64 are protected */
        {"--policy pyramidkv --beta 2", 143, false}, /* 71 */
        {"--policy pyramidkv --beta 2 --window 68", 143, true},  /* 71 for 4 and 68 */
        {"--policy pyramidkv --beta 2 --window 67", 143, false}, /* 71 for 4 and 67 */
        {"--policy pyramidkv --budget head", 143, false},
        {"--policy pyramidkv --beta 1", 143, false}, /* as asked for */
        {"--policy pyramidkv --keep 100%", 717, false},
        {"--policy pyramidkv --keep 95%", 681, false}, /* the largest does not fit */
        {"--policy pyramidkv --keep 1MiB", 143, true},
        {"--policy pyramidkv --keep 1MiB", 1400, false},
        {"--policy full --budget pyramid", 717, false},
        /* sampled, 4 and 32 protected */
        {"--policy min-h --budget pyramid", 143, true},
        {"--policy min-h --budget pyramid --sink 0 --recent 8", 150, true},
        {"--policy min-h --budget pyramid --sink 0 --recent 7", 130, false},
        {"--policy min-h --budget pyramid --sink 0 --recent 0 --keep 1", 1, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        accept(rows[i].line);
        if (wn_policy_is_flat_pyramid(&policy, 717, rows[i].n_kept) != rows[i].is_flat) {
            fail_msg("'%s' with %lld entries", rows[i].line, (long long)rows[i].n_kept);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_complete),
        cmocka_unit_test(defaults_are_the_score_s),
        cmocka_unit_test(presets_are_the_library_s),
        cmocka_unit_test(every_flag_sets_its_field),
        cmocka_unit_test(windows),
        cmocka_unit_test(kernels),
        cmocka_unit_test(group_weights),
        cmocka_unit_test(ranges_are_refused_by_the_flag_s_name),
        cmocka_unit_test(fields_are_called_like_their_flags),
        cmocka_unit_test(fallback_of_a_policy_that_was_not_named),
        cmocka_unit_test(flags_without_effect),
        cmocka_unit_test(warnings_are_true),
        cmocka_unit_test(policy_as_text),
        cmocka_unit_test(pyramids_that_are_flat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
