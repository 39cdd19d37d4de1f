/* SPDX-License-Identifier: MIT */
/*
 * Samples of RULER's retrieval tasks ("needles in a haystack"): a few facts, each a key and a
 * number, stand somewhere in a long text, and a question asks for some of them. Context and
 * question are separate, so that a cache can be compressed before the question is known. Words and
 * texts are our own; tasks, depths and scores are those of RULER (Hsieh et al., "RULER: What's the
 * Real Context Size of Your Long-Context Language Models?").
 */
#ifndef WN_EVAL_NEEDLES_H
#define WN_EVAL_NEEDLES_H

#include "winnow_core.h"

/* In RULER's names. The values seed the samples: new tasks are added at the end. */
enum wn_needle_task {
    WN_NEEDLE_SINGLE_1,   /* niah_single_1: repeated noise, one key with one number */
    WN_NEEDLE_SINGLE_2,   /* niah_single_2: essay, one key with one number */
    WN_NEEDLE_MULTIKEY_1, /* niah_multikey_1: essay, four keys, one of them asked for */
    WN_NEEDLE_MULTIVALUE, /* niah_multivalue: essay, one key with four numbers */
    WN_NEEDLE_MULTIQUERY, /* niah_multiquery: essay, four keys, all asked for */
    WN_NEEDLE_TASK_COUNT
};

/* NULL outside the enum. */
const char *wn_needle_task_name(enum wn_needle_task task);

/*
 * Tokens that an answer gets: 48 for one number, 96 (WN_NEEDLE_NEW_TOKENS_MAX) for four; 0
 * outside the enum. RULER gives 128. A number and its key in a sentence take about 20 where every
 * digit is a token, and a model may say something before it.
 */
int wn_needle_task_new_tokens(enum wn_needle_task task);

enum { WN_NEEDLE_NEW_TOKENS_MAX = 96, WN_NEEDLE_ANSWERS_MAX = 4 };
/* Depths at which needles stand: spread evenly over the context, first and last included. */
enum { WN_NEEDLE_DEPTHS = 40 };
/* Lengths that can be asked for, tokens. */
enum { WN_NEEDLE_TOKENS_MIN = 256, WN_NEEDLE_TOKENS_MAX = 1 << 22 };

struct wn_needle_sample {
    char *context; /* NUL-terminated, like all texts here; lengths in bytes do not count it */
    size_t n_context;
    char *question;
    size_t n_question;
    char *answer[WN_NEEDLE_ANSWERS_MAX]; /* [n_answers], in the order of the question's keys */
    int n_answers;
};

struct wn_needle_options {
    uint64_t seed; /* RULER's default is 42 */
    /* Prose for the tasks that want it, UTF-8 without NUL bytes; borrowed for the call. Used from a
     * random sentence on, and again from its start when it is too short. */
    const char *essay;
    size_t n_essay_bytes;
    int64_t n_tokens;     /* asked length of prompt and answer together */
    int64_t n_new_tokens; /* of these, reserved for the answer; >= 0 */
    /* Tokens of the whole prompt, chat template included; negative: failure. */
    int64_t (*count_tokens)(void *user, const char *context, size_t n_context, const char *question,
                            size_t n_question);
    void *user;
};

/*
 * Makes sample number `sample` (>= 0) of a task. Prompt and reserved tokens together are at most
 * n_tokens and at least 98 % of it. Keys, numbers and relative depths depend on seed, task and
 * sample alone, so that a sample of another length asks for the same. Each answer occurs in the
 * context exactly once. Calls count_tokens about 2 log2(n_tokens) times.
 * WN_E_ARG: an argument out of its range; an essay that is empty, has NUL bytes or a sentence of
 * more than 256 words, or that cannot be cut to the length (its words are too long, or the needles
 * and the question alone do not fit); WN_E_BACKEND: count_tokens failed; WN_E_MEMORY.
 */
wn_status wn_needle_generate(enum wn_needle_task task, const struct wn_needle_options *options,
                             int64_t sample, struct wn_needle_sample *out, struct wn_error *err);
/* A zeroed sample is allowed. */
void wn_needle_sample_free(struct wn_needle_sample *sample);

/*
 * Fraction of the sample's answers that occur in the prediction's n bytes, ignoring the case of
 * ASCII letters; control characters of the prediction count as newlines. In [0, 1]; 0 for an empty
 * prediction. An answer inside a longer number counts, and equal answers count each.
 */
double wn_needle_score(const struct wn_needle_sample *sample, const char *prediction, size_t n);

#endif
