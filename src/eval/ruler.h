/* SPDX-License-Identifier: MIT */
/*
 * Samples of RULER's thirteen tasks (Hsieh et al., "RULER: What's the Real Context Size of Your
 * Long-Context Language Models?"), for any tokenizer and length. Context and question are separate,
 * so that a cache can be compressed before the question is known. Words, texts and wordings are our
 * own; tasks, depths, counts and scores are RULER's.
 */
#ifndef WN_EVAL_RULER_H
#define WN_EVAL_RULER_H

#include "winnow_core.h"

struct wn_qa_data; /* eval/qa_data.h */

/* In RULER's names. The values seed the samples: new tasks are added at the end. */
enum wn_ruler_task {
    WN_RULER_NIAH_SINGLE_1,   /* niah_single_1: repeated noise, one key with one number */
    WN_RULER_NIAH_SINGLE_2,   /* niah_single_2: essay, one key with one number */
    WN_RULER_NIAH_MULTIKEY_1, /* niah_multikey_1: essay, four keys, one of them asked for */
    WN_RULER_NIAH_MULTIVALUE, /* niah_multivalue: essay, one key with four numbers */
    WN_RULER_NIAH_MULTIQUERY, /* niah_multiquery: essay, four keys, all asked for */
    WN_RULER_NIAH_SINGLE_3,   /* niah_single_3: essay, one key with a UUID */
    WN_RULER_NIAH_MULTIKEY_2, /* niah_multikey_2: nothing but keys with numbers, one asked for */
    WN_RULER_NIAH_MULTIKEY_3, /* niah_multikey_3: nothing but UUIDs with UUIDs, one asked for */
    WN_RULER_VT,              /* vt: noise, five variables of one value, assigned in a chain */
    WN_RULER_CWE,             /* cwe: a numbered list of words, its ten most frequent asked for */
    WN_RULER_FWE,             /* fwe: coded words by Zipf's law, ranks two to four asked for */
    WN_RULER_QA_1,            /* qa_1: paragraphs, a question with one of them (SQuAD) */
    WN_RULER_QA_2,            /* qa_2: paragraphs, a question across several (HotpotQA) */
    WN_RULER_TASK_COUNT
};

/* NULL outside the enum. */
const char *wn_ruler_task_name(enum wn_ruler_task task);
/* Tokens that RULER gives an answer: 128 for niah, 30 vt, 120 cwe, 50 fwe, 32 qa; 0 outside the
 * enum. */
int wn_ruler_task_new_tokens(enum wn_ruler_task task);
/* What of the options a task needs. */
bool wn_ruler_task_needs_essay(enum wn_ruler_task task);
bool wn_ruler_task_needs_qa(enum wn_ruler_task task);

/* Depths at which needles stand: spread evenly over the context, first and last included. */
enum { WN_RULER_DEPTHS = 40 };
/* Lengths that can be asked for, tokens. */
enum { WN_RULER_TOKENS_MIN = 256, WN_RULER_TOKENS_MAX = 1 << 22 };
/* Most lengths in one benchmark. */
enum { WN_RULER_LENGTHS_MAX = 16 };

struct wn_ruler_sample {
    enum wn_ruler_task task;
    char *context; /* NUL-terminated, like all texts here; lengths in bytes do not count it */
    size_t n_context;
    char *question;
    size_t n_question;
    /* [n_answers]: values in the order of the keys asked for; variables in the order of their
     * chain; words, the most frequent of fwe first; the references of a qa question. */
    char **answer;
    int n_answers;
};

struct wn_ruler_options {
    uint64_t seed; /* RULER's default is 42 */
    /* Prose for the tasks that want it, UTF-8 without NUL bytes; borrowed for the call. Used from a
     * random sentence on, and again from its start when it is too short. */
    const char *essay;
    size_t n_essay_bytes;
    /* Questions for qa_1 or qa_2, borrowed; sample i asks the i-th. */
    const struct wn_qa_data *qa;
    int64_t n_tokens;     /* asked length of prompt and answer together */
    int64_t n_new_tokens; /* of these, reserved for the answer; >= 0 */
    /* Tokens of the whole prompt, chat template included; negative: failure. */
    int64_t (*count_tokens)(void *user, const char *context, size_t n_context, const char *question,
                            size_t n_question);
    void *user;
};

/*
 * Makes sample number `sample` (>= 0) of a task. Prompt and reserved tokens together are at most
 * n_tokens and at least 98 % of it. What is asked depends on seed, task and sample alone, so that a
 * sample of another length asks for the same. Same sample on every machine. Every answer occurs in
 * the context: a value of niah exactly once, a variable of vt once
 * or twice, a word of cwe and fwe as often as the task has it, of a qa question at least one
 * reference within a paragraph of its own. Calls count_tokens about 2 log2(n_tokens) times.
 * WN_E_ARG: an argument out of its range; an essay that is empty, has NUL bytes or a sentence of
 * more than 256 words; no questions, or fewer than sample + 1; a length that cannot be met (what
 * the task must hold alone is longer, or its words are too long to come within 2 %);
 * WN_E_BACKEND: count_tokens failed; WN_E_MEMORY. Free with wn_ruler_sample_free.
 */
wn_status wn_ruler_generate(enum wn_ruler_task task, const struct wn_ruler_options *options,
                            int64_t sample, struct wn_ruler_sample *out, struct wn_error *err);
/* A zeroed sample and NULL are allowed. */
void wn_ruler_sample_free(struct wn_ruler_sample *sample);

/*
 * RULER's score of a prediction of n bytes, in [0, 1]: the share of the sample's answers that occur
 * in it (string_match_all); for qa, 1 when any does (string_match_part). The case of ASCII letters
 * is ignored and control characters count as newlines. An answer inside a longer number counts,
 * and equal answers count each. 0 for an empty prediction.
 */
double wn_ruler_score(const struct wn_ruler_sample *sample, const char *prediction, size_t n);

#endif
