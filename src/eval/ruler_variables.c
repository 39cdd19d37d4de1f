/* SPDX-License-Identifier: MIT */
/*
 * RULER's variable tracking: a chain of assignments of one value is scattered over noise, and all
 * variables that have the value are asked for. A worked example stands before it.
 */
#include "eval/ruler_haystack.h"
#include "eval/ruler_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_VARIABLES = 5, NAME_LETTERS = 5, VALUE_MIN = 10000, VALUE_MAX = 99999 };
enum { EXAMPLE_TOKENS_MAX = 500, SENTENCE_BYTES = 64 };

/* A value and the variables that get it, in the order of the chain. */
struct chain {
    int value;
    char name[N_VARIABLES][NAME_LETTERS + 1];
    char sentence[N_VARIABLES][SENTENCE_BYTES];
    struct wn_insertion insertion[N_VARIABLES];
    int64_t first_word;
};

struct plan {
    struct wn_haystack noise;
    struct chain example, chain;
    int64_t n_example_words;
};

/* ---- wording ---- */

static const char opening[] = "Follow the variables that this text assigns.\n\n";

static void write_question(struct wn_text_buffer *text, int value) {
    wn_text_append_string(text, "Which variables have the value ");
    wn_text_append_number(text, value);
    wn_text_append_string(text, " in the text, directly or by way of another variable? "
                                "The five variables with the value ");
    wn_text_append_number(text, value);
    wn_text_append_string(text, " are");
}

static void write_sentences(struct chain *chain) {
    for (int i = 0; i < N_VARIABLES; i++) {
        if (i == 0) {
            snprintf(chain->sentence[i], SENTENCE_BYTES, "VAR %s = %d.", chain->name[i],
                     chain->value);
        } else {
            snprintf(chain->sentence[i], SENTENCE_BYTES, "VAR %s = VAR %s.", chain->name[i],
                     chain->name[i - 1]);
        }
        chain->insertion[i].sentence = chain->sentence[i];
    }
}

/* ---- what is random ---- */

static bool chain_has(const struct chain *chain, int n_names, const char *name) {
    for (int i = 0; i < n_names; i++) {
        if (strcmp(chain->name[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the letters occur in what else the prompt says. */
static bool is_said(const struct plan *plan, const char *name) {
    static const char *const said[] = {
        opening, "Which variables have the value in the text, directly or by way of another "
                 "variable? The five variables with the value are"};
    return wn_text_contains(plan->noise.text, plan->noise.n_bytes, name) ||
           wn_text_contains(said[0], strlen(said[0]), name) ||
           wn_text_contains(said[1], strlen(said[1]), name);
}

static void draw_chain(struct plan *plan, struct chain *chain, const struct chain *other,
                       struct wn_rng *rng) {
    double depth[N_VARIABLES];
    do {
        chain->value = VALUE_MIN + (int)wn_draw_below(rng, VALUE_MAX - VALUE_MIN + 1);
    } while (other != NULL && chain->value == other->value);
    for (int i = 0; i < N_VARIABLES; i++) {
        do {
            for (int c = 0; c < NAME_LETTERS; c++) {
                chain->name[i][c] = (char)('A' + wn_draw_below(rng, 26));
            }
        } while (chain_has(chain, i, chain->name[i]) || is_said(plan, chain->name[i]) ||
                 (other != NULL && chain_has(other, N_VARIABLES, chain->name[i])));
    }
    wn_draw_depths(rng, depth, N_VARIABLES);
    for (int i = 0; i < N_VARIABLES; i++) {
        chain->insertion[i].depth = depth[i];
    }
    chain->first_word = wn_haystack_draw_start(&plan->noise, rng);
    write_sentences(chain);
}

/* ---- contexts ---- */

/* Units are words of the noise. */
static void write_chain(struct wn_text_buffer *context, const struct plan *plan,
                        const struct chain *chain, int64_t n_words) {
    wn_text_append_string(context, opening);
    wn_haystack_write(context, &plan->noise, chain->first_word, n_words, chain->insertion,
                      N_VARIABLES);
}

static void write_example(void *user, int64_t n_words, struct wn_text_buffer *context) {
    const struct plan *plan = user;
    write_chain(context, plan, &plan->example, n_words);
    wn_text_append_string(context, "\n\n");
    write_question(context, plan->example.value);
    for (int i = 0; i < N_VARIABLES; i++) {
        wn_text_append_string(context, i == 0 ? " " : i < N_VARIABLES - 1 ? ", " : " and ");
        wn_text_append_string(context, plan->example.name[i]);
    }
    wn_text_append_string(context, ".\n\n");
}

static void write_context(void *user, int64_t n_words, struct wn_text_buffer *context) {
    const struct plan *plan = user;
    write_example(user, plan->n_example_words, context);
    write_chain(context, plan, &plan->chain, n_words);
}

wn_status wn_ruler_make_variables(const struct wn_ruler_job *job, struct wn_text_buffer *context,
                                  struct wn_text_buffer *question, struct wn_ruler_sample *sample,
                                  struct wn_error *err) {
    struct plan plan = {0};
    struct wn_rng rng;
    int64_t n_units;
    const int64_t n_half = job->options->n_tokens / 2;
    wn_ruler_seed(job, 0, &rng);
    wn_status status = wn_haystack_of_noise(&plan.noise, err);
    if (status == WN_OK) {
        draw_chain(&plan, &plan.chain, NULL, &rng);
        draw_chain(&plan, &plan.example, &plan.chain, &rng);
        write_question(question, plan.chain.value);
        /* A word is a token or more. The question is counted too, which a count cannot do without. */
        status = wn_ruler_fit_below(job, write_example, &plan, question, EXAMPLE_TOKENS_MAX,
                                    n_half < EXAMPLE_TOKENS_MAX ? n_half : EXAMPLE_TOKENS_MAX,
                                    &plan.n_example_words, err);
    }
    if (status == WN_OK) {
        status = wn_ruler_fit(job, write_context, &plan, question, context, &n_units, err);
    }
    for (int i = 0; status == WN_OK && i < N_VARIABLES; i++) {
        status = wn_ruler_add_answer(sample, plan.chain.name[i], err);
    }
    wn_haystack_free(&plan.noise);
    return status;
}
