/* SPDX-License-Identifier: MIT */
/* Paragraphs and questions with answers, from files in the formats of SQuAD and HotpotQA. */
#ifndef WN_EVAL_QA_DATA_H
#define WN_EVAL_QA_DATA_H

#include "eval/content_hash.h"

enum wn_qa_format {
    WN_QA_SQUAD,   /* {"data": [{"paragraphs": [{"context", "qas": [{"question", "answers":
                      [{"text"}], "is_impossible"}]}]}]}; SQuAD 1.1 and 2.0 */
    WN_QA_HOTPOTQA /* [{"question", "answer", "context": [[title, [sentence, ...]], ...],
                      "supporting_facts": [[title, sentence number], ...]}]; the last may be missing:
                      then all paragraphs of a question support it */
};

struct wn_qa_question {
    char *question;
    char **answer; /* [n_answers], n_answers >= 1: the references, distinct */
    int n_answers;
    /* Indices of paragraphs: the n_required that the answer takes, then those that stand by it (of
     * the same article, or given as distractors). Distinct. */
    int64_t *paragraph; /* [n_paragraphs] */
    int64_t n_required, n_paragraphs;
};

/* Free with wn_qa_data_free. */
struct wn_qa_data {
    char **
        paragraph; /* [n_paragraphs]: distinct, not blank, in the file's order; HotpotQA's begin with
                         their title in a line of its own */
    int64_t n_paragraphs;
    struct wn_qa_question *question; /* [n_questions], in the file's order */
    int64_t n_questions;
    struct wn_content_hash hash; /* of the file */
    int64_t n_skipped; /* questions left out: malformed, without an answer, or none of whose answers
                          occurs in a required paragraph ("yes" and "no", for example) */
};

/*
 * Reads a file. WN_E_IO: cannot be read; WN_E_FORMAT: no JSON (the line is named), not of this format,
 * or without a question that can be used; WN_E_MEMORY.
 */
wn_status wn_qa_data_read(const char *path, enum wn_qa_format format, struct wn_qa_data *out,
                          struct wn_error *err);
/* A zeroed one is allowed. */
void wn_qa_data_free(struct wn_qa_data *data);

#endif
