/* SPDX-License-Identifier: MIT */
/*
 * The English subsets of LongBench, version 1 (Bai et al., "LongBench: A Bilingual, Multitask
 * Benchmark for Long Context Understanding"): what each asks for, prompts and scores. The examples
 * are the user's; eval/longbench_data.h reads them.
 */
#ifndef WN_EVAL_LONGBENCH_H
#define WN_EVAL_LONGBENCH_H

#include "eval/text_buffer.h"
#include "winnow_core.h"

enum wn_longbench_subset {
    WN_LONGBENCH_NARRATIVEQA,
    WN_LONGBENCH_QASPER,
    WN_LONGBENCH_MULTIFIELDQA_EN,
    WN_LONGBENCH_HOTPOTQA,
    WN_LONGBENCH_2WIKIMQA,
    WN_LONGBENCH_MUSIQUE,
    WN_LONGBENCH_GOV_REPORT,
    WN_LONGBENCH_QMSUM,
    WN_LONGBENCH_MULTI_NEWS,
    WN_LONGBENCH_TREC,
    WN_LONGBENCH_TRIVIAQA,
    WN_LONGBENCH_SAMSUM,
    WN_LONGBENCH_PASSAGE_COUNT,
    WN_LONGBENCH_PASSAGE_RETRIEVAL_EN,
    WN_LONGBENCH_LCC,
    WN_LONGBENCH_REPOBENCH_P,
    WN_LONGBENCH_SUBSET_COUNT
};

/* Of eval/text_metrics.h. */
enum wn_longbench_metric {
    WN_LONGBENCH_TOKEN_F1,
    WN_LONGBENCH_ROUGE_L,
    WN_LONGBENCH_CLASSIFICATION,
    WN_LONGBENCH_RETRIEVAL,
    WN_LONGBENCH_COUNT,
    WN_LONGBENCH_CODE_SIMILARITY
};

struct wn_longbench_info {
    const char *name; /* official: of the file, too */
    int n_new_tokens; /* official: tokens that an answer gets */
    enum wn_longbench_metric metric;
    bool uses_chat;     /* the prompt stands in the model's chat template */
    bool first_line;    /* of a prediction only the first line counts, leading newlines aside */
    const char *prompt; /* our wording, with {context} and {input}; see wn_longbench_write_prompt */
};

/* NULL outside the enum. */
const struct wn_longbench_info *wn_longbench_info(enum wn_longbench_subset subset);

/* One line of a subset's file. */
struct wn_longbench_example {
    char *id; /* its "_id"; "line N" without one */
    char *input, *context;
    char **answer; /* [n_answers], n_answers >= 1: references */
    int n_answers;
    char **class_name; /* [n_class_names]: "all_classes"; at least one where they are needed */
    int n_class_names;
    int64_t n_words; /* its "length": words of the text; 0 without one */
};

/*
 * Writes an example's prompt in two parts, appended to `context` and `question`: up to the end of the
 * context, which can be compressed alone, and the rest. In `format`, {context} and {input} stand for
 * the example's texts, and {{ and }} for braces, as in the official file of formats
 * (dataset2prompt.json). WN_E_FORMAT: another field, a single brace, not one {context}, or {input}
 * before it; WN_E_MEMORY.
 */
wn_status wn_longbench_write_prompt(const char *format, const struct wn_longbench_example *example,
                                    struct wn_text_buffer *context, struct wn_text_buffer *question,
                                    struct wn_error *err);

/*
 * Cuts a prompt of n tokens in the middle, as published: of more than n_max, the first and the last
 * n_max / 2 (rounded down) stay. In place; returns the tokens left. *n_context, how many of the tokens
 * belong to the context (the first ones), becomes how many of those that are left do.
 */
int64_t wn_longbench_cut_middle(int32_t *token, int64_t n, int64_t n_max, int64_t *n_context);

/* Whether the score of a prediction of n bytes stays as it is whatever follows: the line that counts is
 * complete. */
bool wn_longbench_is_final(enum wn_longbench_subset subset, const char *prediction, size_t n);

/* The best score of a prediction of n bytes over the example's references, [0, 1]. WN_E_MEMORY. */
wn_status wn_longbench_score(enum wn_longbench_subset subset,
                             const struct wn_longbench_example *example, const char *prediction,
                             size_t n, double *score, struct wn_error *err);

#endif
