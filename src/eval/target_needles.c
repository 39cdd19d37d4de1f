/* SPDX-License-Identifier: MIT */
/*
 * Facts that a compressed cache still holds: the share of the full cache's score that each policy
 * keeps on RULER's retrieval tasks. Query-agnostic: the context is compressed, and only then is the
 * question fed. Query-aware: the question is fed before.
 */
#include "core/clock.h"
#include "eval/ruler_prompt.h"
#include "eval/targets.h"
#include "eval/task_answer.h"
#include "eval/text_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first five of RULER's tasks, in the order of its enum. */
enum { N_TASKS = WN_RULER_NIAH_MULTIQUERY + 1, N_MODES = 3 };
enum { SEED = 42 }; /* RULER's */

/*
 * Tokens that an answer gets: RULER gives 128. A number and its key in a sentence take about 20 where
 * every digit is a token, and a model may say something before it.
 */
enum { NEW_TOKENS_MAX = 96 };
static const int n_answer_tokens[N_TASKS] = {48, 48, 48, NEW_TOKENS_MAX, NEW_TOKENS_MAX};

/* How a policy is used: what it keeps, and whether it knows the question. */
static const struct mode {
    const char *name; /* in row names */
    double share;
    bool aware;
} modes[N_MODES] = {
    {"keep20_agnostic", 0.20, false},
    {"keep10_agnostic", 0.10, false},
    {"keep20_aware", 0.20, true},
};

/* Of the policies that need every query a session serves those of four different query weights;
 * policies with windows share the widest. */
static const struct method {
    const char *name; /* in row names */
    enum wn_score score;
    bool adaptive;           /* heads of a layer compete, instead of the score's own budget */
    bool used[N_MODES];      /* modes measured */
    double promise[N_MODES]; /* least share of the full cache's score; 0: none */
} methods[] = {
    {"foresight", WN_SCORE_FORESIGHT, false, {true, true, true}, {0.60, 0.0, 0.95}},
    {"rehearsal", WN_SCORE_REHEARSAL, false, {true, true, false}, {0.0, 0.95, 0.0}},
    {"min_h", WN_SCORE_MIN_H, false, {true, true, true}, {0}},
    {"h2o_mean", WN_SCORE_H2O_MEAN, false, {true, true, true}, {0}},
    {"snapkv", WN_SCORE_SNAPKV, false, {true, true, true}, {0}},
    {"snapkv_adaptive", WN_SCORE_SNAPKV, true, {true, true, true}, {0}},
    {"exposure", WN_SCORE_EXPOSURE, false, {true, true, false}, {0}},
    {"k_norm", WN_SCORE_K_NORM, false, {true, true, false}, {0}},
    {"streaming", WN_SCORE_STREAMING, false, {true, true, false}, {0}},
};
enum { N_METHODS = sizeof methods / sizeof methods[0], MAX_CELLS = N_METHODS * N_MODES };

/* Sums over samples of a policy's score s and the full cache's f. */
struct sums {
    int n;
    double s, f, ss, sf, ff;
};

/* One row: a method in a mode. */
struct cell {
    char name[48];
    struct wn_bench_method method;
    double share;
    bool aware;
    double promise;
    struct sums sums[WN_TARGET_LENGTHS_MAX][N_TASKS];
};

struct needles {
    struct wn_targets *targets;
    char *essay;
    size_t n_essay_bytes;
    struct cell cells[MAX_CELLS];
    int n_cells;
    struct sums full[WN_TARGET_LENGTHS_MAX][N_TASKS]; /* of all samples; s alone */
    int n_unanswered; /* samples of which the full cache answers nothing */
    double started;
    int64_t n_done_tokens, n_all_tokens; /* asked lengths, for the time left */
};

/* A sample, and what the full cache makes of it. */
struct prompt {
    int length; /* index of the asked length */
    enum wn_ruler_task task;
    int64_t i_sample;
    struct wn_ruler_prompt ruler;
    double full; /* score of the full cache */
};

/* ---- sums ---- */

static void add_score(struct sums *sums, double score, double full) {
    sums->n++;
    sums->s += score;
    sums->f += full;
    sums->ss += score * score;
    sums->sf += score * full;
    sums->ff += full * full;
}

static void add_sums(struct sums *to, const struct sums *from) {
    to->n += from->n;
    to->s += from->s;
    to->f += from->f;
    to->ss += from->ss;
    to->sf += from->sf;
    to->ff += from->ff;
}

/* Over all tasks of the lengths first .. last - 1, or over one task. */
static struct sums total(struct sums sums[][N_TASKS], int first, int last, int task) {
    struct sums all = {0};
    for (int l = first; l < last; l++) {
        for (int t = 0; t < N_TASKS; t++) {
            if (task < 0 || t == task) {
                add_sums(&all, &sums[l][t]);
            }
        }
    }
    return all;
}

static double ratio(const struct sums *sums) {
    return sums->s / sums->f;
}

/* Of the ratio r of paired sums, by the delta method: sqrt(n / (n - 1) sum (s - r f)^2) / sum f. */
static double standard_error(const struct sums *sums) {
    const double r = ratio(sums), n = sums->n;
    const double squares = sums->ss - 2.0 * r * sums->sf + r * r * sums->ff;
    return sums->n < 2 ? (double)NAN : sqrt(fmax(squares, 0.0) * n / (n - 1.0)) / sums->f;
}

/* ---- prompts ---- */

static wn_status make_prompt(const struct needles *needles, struct prompt *prompt,
                             struct wn_error *err) {
    const struct wn_ruler_options options = {.seed = SEED,
                                             .essay = needles->essay,
                                             .n_essay_bytes = needles->n_essay_bytes,
                                             .n_tokens = needles->targets->lengths[prompt->length],
                                             .n_new_tokens = n_answer_tokens[prompt->task]};
    return wn_ruler_prompt_make(needles->targets->model, prompt->task, &options, prompt->i_sample,
                                &prompt->ruler, err);
}

/* ---- answers ---- */

static struct wn_task_run run_of(const struct needles *needles, const struct prompt *prompt) {
    return (struct wn_task_run){.model = needles->targets->model,
                                .engine = needles->targets->engine,
                                .seed = (uint64_t)prompt->i_sample};
}

static struct wn_task_sample sample_of(const struct prompt *prompt) {
    return wn_ruler_prompt_sample(&prompt->ruler, wn_ruler_task_name(prompt->task),
                                  n_answer_tokens[prompt->task]);
}

/* Asks forks of the session, all with the sample's seed. score [n_asks] out. */
static wn_status ask(const struct needles *needles, const struct wn_session *session, bool aware,
                     const struct prompt *prompt, struct wn_task_ask *asks, int n_asks,
                     double *score, struct wn_error *err) {
    struct wn_task_run run = run_of(needles, prompt);
    const struct wn_task_sample sample = sample_of(prompt);
    const wn_status status = wn_task_answer(&run, &sample, session, !aware, asks, n_asks, err);
    for (int i = 0; i < n_asks; i++) {
        const struct wn_text_buffer *text = &asks[i].prediction;
        score[i] = wn_ruler_score(&prompt->ruler.sample, text->bytes, text->n);
        free(text->bytes);
    }
    return status;
}

/* A session that holds the context, and the question when `aware`, and what the mode's cells need
 * to compress it. Free whatever the status. */
static wn_status read_prompt(const struct needles *needles, const struct prompt *prompt, bool aware,
                             struct wn_session **out, struct wn_error *err) {
    const int64_t n_total = aware ? prompt->ruler.tokens.n : prompt->ruler.n_context;
    struct wn_task_run run = run_of(needles, prompt);
    const struct wn_task_sample sample = sample_of(prompt);
    bool rehearses = false;
    wn_status status = wn_session_create(needles->targets->engine, out, err);
    for (int c = 0; status == WN_OK && c < needles->n_cells; c++) {
        if (needles->cells[c].aware == aware) {
            status = wn_session_observe(*out, &needles->cells[c].method.policy, n_total, err);
            rehearses = rehearses || wn_policy_rehearses(&needles->cells[c].method.policy);
        }
    }
    return status == WN_OK ? wn_task_read(&run, &sample, *out, aware, rehearses, err) : status;
}

/* Asks a session under every cell that is used so. */
static wn_status score_cells(struct needles *needles, const struct wn_session *session,
                             const struct prompt *prompt, bool aware, struct wn_error *err) {
    struct wn_task_ask asks[MAX_CELLS];
    struct cell *asked[MAX_CELLS];
    double score[MAX_CELLS];
    int n = 0;
    for (int c = 0; c < needles->n_cells; c++) {
        struct cell *cell = &needles->cells[c];
        if (cell->aware == aware) {
            asked[n] = cell;
            asks[n++] = (struct wn_task_ask){.method = &cell->method, .keep = cell->share};
        }
    }
    const wn_status status = ask(needles, session, aware, prompt, asks, n, score, err);
    for (int i = 0; status == WN_OK && i < n; i++) {
        add_score(&asked[i]->sums[prompt->length][prompt->task], score[i], prompt->full);
    }
    return status;
}

/* ---- samples ---- */

static wn_status score_agnostic(struct needles *needles, struct prompt *prompt,
                                struct wn_error *err) {
    struct wn_session *session = NULL;
    wn_status status = read_prompt(needles, prompt, false, &session, err);
    if (status == WN_OK) {
        struct wn_task_ask full = {.keep = 1.0};
        status = ask(needles, session, false, prompt, &full, 1, &prompt->full, err);
    }
    /* What the full cache cannot answer says nothing about a compressed one. */
    if (status == WN_OK && prompt->full > 0.0) {
        status = score_cells(needles, session, prompt, false, err);
    }
    wn_session_free(session);
    return status;
}

static wn_status score_aware(struct needles *needles, const struct prompt *prompt,
                             struct wn_error *err) {
    struct wn_session *session = NULL;
    wn_status status = read_prompt(needles, prompt, true, &session, err);
    if (status == WN_OK) {
        status = score_cells(needles, session, prompt, true, err);
    }
    wn_session_free(session);
    return status;
}

static void note_sample(struct needles *needles, const struct prompt *prompt) {
    const int64_t n_tokens = needles->targets->lengths[prompt->length];
    needles->n_done_tokens += n_tokens;
    const double done = (double)needles->n_done_tokens / (double)needles->n_all_tokens;
    const double left = (wn_clock() - needles->started) * (1.0 / done - 1.0);
    wn_targets_note(needles->targets,
                    "needles: %lld tokens, %s, sample %lld of %lld: full cache %.2f; %.0f %% done, "
                    "about %.0f min left",
                    (long long)n_tokens, wn_ruler_task_name(prompt->task),
                    (long long)prompt->i_sample + 1, (long long)needles->targets->n_samples,
                    prompt->full, 100.0 * done, ceil(left / 60.0));
}

static wn_status measure_sample(struct needles *needles, int length, int task, int64_t i_sample,
                                struct wn_error *err) {
    struct prompt prompt = {
        .length = length, .task = (enum wn_ruler_task)task, .i_sample = i_sample};
    wn_status status = make_prompt(needles, &prompt, err);
    if (status == WN_OK) {
        status = score_agnostic(needles, &prompt, err);
    }
    if (status == WN_OK && prompt.full > 0.0) {
        status = score_aware(needles, &prompt, err);
    }
    if (status == WN_OK) {
        add_score(&needles->full[length][task], prompt.full, prompt.full);
        needles->n_unanswered += prompt.full <= 0.0;
        note_sample(needles, &prompt);
    }
    wn_ruler_prompt_free(&prompt.ruler);
    return status;
}

/* ---- results ---- */

static void report_length(struct needles *needles, int length) {
    const struct sums all = total(needles->full, length, length + 1, -1);
    char name[64];
    snprintf(name, sizeof name, "needle_full_%lld", (long long)needles->targets->lengths[length]);
    wn_targets_add(needles->targets, name, all.s / all.n, WN_TARGET_NONE, 0.0,
                   "mean score of the full cache, %d samples", all.n);
}

static void report_cell(struct needles *needles, struct cell *cell) {
    const struct sums all = total(cell->sums, 0, needles->targets->n_lengths, -1);
    wn_targets_add(needles->targets, cell->name, ratio(&all),
                   cell->promise > 0.0 ? WN_TARGET_AT_LEAST : WN_TARGET_NONE, cell->promise,
                   "share of the full cache's score, standard error %.3f; mean scores %.3f and "
                   "%.3f, %d samples that the full cache answers in part",
                   standard_error(&all), all.s / all.n, all.f / all.n, all.n);
}

/* The share by task, all lengths together, and by length. */
static void note_cell(struct needles *needles, struct cell *cell) {
    const int n_lengths = needles->targets->n_lengths;
    char line[200];
    int n = snprintf(line, sizeof line, "%-37s", cell->name);
    for (int t = 0; t < N_TASKS; t++) {
        const struct sums sums = total(cell->sums, 0, n_lengths, t);
        n += snprintf(line + n, sizeof line - (size_t)n, " %5.2f", ratio(&sums));
    }
    n += snprintf(line + n, sizeof line - (size_t)n, " |");
    for (int l = 0; l < n_lengths; l++) {
        const struct sums sums = total(cell->sums, l, l + 1, -1);
        n += snprintf(line + n, sizeof line - (size_t)n, " %5.2f", ratio(&sums));
    }
    wn_targets_note(needles->targets, "%s", line);
}

static void report(struct needles *needles) {
    wn_targets_note(needles->targets,
                    "needles: share of the full cache's score by task (single_1, single_2, "
                    "multikey_1, multivalue, multiquery) and by length; %d samples left out",
                    needles->n_unanswered);
    for (int c = 0; c < needles->n_cells; c++) {
        note_cell(needles, &needles->cells[c]);
    }
    for (int c = 0; c < needles->n_cells; c++) {
        report_cell(needles, &needles->cells[c]);
    }
}

/* ---- the whole ---- */

static void list_cells(struct needles *needles) {
    for (int m = 0; m < N_METHODS; m++) {
        for (int k = 0; k < N_MODES; k++) {
            if (!methods[m].used[k]) {
                continue;
            }
            struct cell *cell = &needles->cells[needles->n_cells++];
            snprintf(cell->name, sizeof cell->name, "needle_%s_%s", methods[m].name, modes[k].name);
            snprintf(cell->method.name, sizeof cell->method.name, "%s", methods[m].name);
            wn_policy_default(&cell->method.policy, methods[m].score);
            if (methods[m].adaptive) {
                cell->method.policy.budget = WN_BUDGET_ADAPTIVE;
            }
            cell->share = modes[k].share;
            cell->aware = modes[k].aware;
            cell->promise = methods[m].promise[k];
        }
    }
}

/* Our own prose, one text after the other. */
static wn_status read_essay(struct needles *needles, struct wn_error *err) {
    static const char *const names[] = {"narrative.txt", "interview.txt", "manual.txt"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++) {
        char path[4096];
        struct wn_text_file file = {0};
        snprintf(path, sizeof path, "%s/%s", needles->targets->texts, names[i]);
        const wn_status status = wn_text_file_read(path, &file, err);
        if (status != WN_OK) {
            return status;
        }
        char *larger = realloc(needles->essay, needles->n_essay_bytes + file.n_bytes + 2);
        if (larger == NULL) {
            wn_text_file_free(&file);
            return wn_error_set(err, WN_E_MEMORY, "out of memory for the essay");
        }
        needles->essay = larger;
        memcpy(larger + needles->n_essay_bytes, file.bytes, file.n_bytes);
        needles->n_essay_bytes += file.n_bytes;
        memcpy(larger + needles->n_essay_bytes, "\n\n", 2);
        needles->n_essay_bytes += 2;
        wn_text_file_free(&file);
    }
    return WN_OK;
}

static wn_status open_needles(struct needles *needles, struct wn_error *err) {
    const struct wn_targets *targets = needles->targets;
    struct wn_engine_info engine;
    wn_engine_info(targets->engine, &engine);
    for (int l = 0; l < targets->n_lengths; l++) {
        if (targets->lengths[l] > engine.n_ctx) {
            return wn_error_set(err, WN_E_CONTEXT,
                                "needles of %lld tokens do not fit the context of %lld",
                                (long long)targets->lengths[l], (long long)engine.n_ctx);
        }
        needles->n_all_tokens += targets->lengths[l] * N_TASKS * targets->n_samples;
    }
    list_cells(needles);
    needles->started = wn_clock();
    return read_essay(needles, err);
}

static wn_status measure_length(struct needles *needles, int length, struct wn_error *err) {
    wn_status status = WN_OK;
    for (int t = 0; status == WN_OK && t < N_TASKS; t++) {
        for (int64_t i = 0; status == WN_OK && i < needles->targets->n_samples; i++) {
            status = measure_sample(needles, length, t, i, err);
        }
    }
    if (status == WN_OK) {
        report_length(needles, length);
    }
    return status;
}

wn_status wn_target_needles(struct wn_targets *targets, struct wn_error *err) {
    struct needles *needles = calloc(1, sizeof *needles);
    if (needles == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    }
    needles->targets = targets;
    wn_status status = open_needles(needles, err);
    for (int l = 0; status == WN_OK && l < targets->n_lengths; l++) {
        status = measure_length(needles, l, err);
    }
    if (status == WN_OK) {
        report(needles);
    }
    free(needles->essay);
    free(needles);
    return status;
}
