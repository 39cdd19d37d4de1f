/* SPDX-License-Identifier: MIT */
/*
 * RULER's question answering: the paragraphs that a question is about, among as many others as the
 * length has room for, all in random order.
 */
#include "core/arrays.h"
#include "eval/qa_data.h"
#include "eval/ruler_job.h"

#include <stdlib.h>
#include <string.h>

/* Streams from STREAM_PLACES on are one for each paragraph of the prompt. */
enum { STREAM_OTHERS = 1, STREAM_PLACES };

/* A paragraph of the prompt. */
struct place {
    uint64_t rank; /* the prompt has them by ascending rank */
    int64_t idx;   /* breaks ties */
    const char *paragraph;
    size_t n_bytes; /* of the paragraph that are written */
};

struct plan {
    const struct wn_ruler_job *job;
    const struct wn_qa_data *qa;
    const struct wn_qa_question *question;
    int64_t
        *other; /* [n_others]: paragraphs that may stand beside the required ones, in the order in
                       which they are used; begun anew when all are */
    int64_t n_others;
    struct place *place; /* [room] */
    int64_t n_places, room;
};

/* ---- paragraphs ---- */

/* A question's own first, then all of the file, both in random order. */
static wn_status order_others(struct plan *plan, struct wn_error *err) {
    const struct wn_qa_data *qa = plan->qa;
    const struct wn_qa_question *question = plan->question;
    const int64_t n_own = question->n_paragraphs - question->n_required;
    struct wn_rng rng;
    bool *taken = calloc((size_t)qa->n_paragraphs, sizeof *taken);
    plan->other = calloc((size_t)qa->n_paragraphs + 1, sizeof *plan->other);
    if (taken == NULL || plan->other == NULL) {
        free(taken);
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the paragraphs");
    }
    for (int64_t i = 0; i < question->n_paragraphs; i++) {
        taken[question->paragraph[i]] = true;
        if (i >= question->n_required) {
            plan->other[plan->n_others++] = question->paragraph[i];
        }
    }
    for (int64_t p = 0; p < qa->n_paragraphs; p++) {
        if (!taken[p]) {
            plan->other[plan->n_others++] = p;
        }
    }
    free(taken);
    wn_ruler_seed(plan->job, STREAM_OTHERS, &rng);
    wn_shuffle(&rng, plan->other, n_own);
    wn_shuffle(&rng, plan->other + n_own, plan->n_others - n_own);
    return WN_OK;
}

/* Bytes of the first *n_words words, which is lowered by the words found. */
static size_t cut_words(const char *text, int64_t *n_words) {
    size_t end = 0, at = 0;
    while (*n_words > 0) {
        while (wn_is_blank(text[at])) {
            at++;
        }
        if (text[at] == '\0') {
            break;
        }
        while (text[at] != '\0' && !wn_is_blank(text[at])) {
            at++;
        }
        end = at;
        --*n_words;
    }
    return end;
}

/* Adds a paragraph, of which n_bytes are written, at a random place that does not depend on how many
 * there are. */
static bool add_place(struct plan *plan, const char *paragraph, size_t n_bytes) {
    struct wn_rng rng;
    struct place *larger = wn_grown(plan->place, plan->n_places + 1, &plan->room, sizeof *larger);
    if (larger == NULL) {
        return false;
    }
    plan->place = larger;
    wn_ruler_seed(plan->job, STREAM_PLACES + (uint64_t)plan->n_places, &rng);
    plan->place[plan->n_places] =
        (struct place){wn_rng_next(&rng), plan->n_places, paragraph, n_bytes};
    plan->n_places++;
    return true;
}

static int compare_places(const void *a, const void *b) {
    const struct place *left = a, *right = b;
    if (left->rank != right->rank) {
        return left->rank < right->rank ? -1 : 1;
    }
    return (left->idx > right->idx) - (left->idx < right->idx);
}

/* The required paragraphs whole, and n_words of others. */
static bool choose_places(struct plan *plan, int64_t n_words) {
    const struct wn_qa_question *question = plan->question;
    bool ok = true;
    plan->n_places = 0;
    for (int64_t i = 0; ok && i < question->n_required; i++) {
        const char *paragraph = plan->qa->paragraph[question->paragraph[i]];
        ok = add_place(plan, paragraph, strlen(paragraph));
    }
    for (int64_t i = 0; ok && n_words > 0 && plan->n_others > 0; i++) {
        const char *paragraph = plan->qa->paragraph[plan->other[i % plan->n_others]];
        const size_t n_bytes = cut_words(paragraph, &n_words);
        ok = add_place(plan, paragraph, n_bytes);
    }
    qsort(plan->place, (size_t)plan->n_places, sizeof *plan->place, compare_places);
    return ok;
}

/* ---- wording ---- */

static const char instruction[] =
    "Answer the question with a few words from the documents, and nothing else.";

/* Units are words of other paragraphs. */
static void write_documents(void *user, int64_t n_words, struct wn_text_buffer *context) {
    struct plan *plan = user;
    context->failed = context->failed || !choose_places(plan, n_words);
    wn_text_append_string(context, instruction);
    for (int64_t i = 0; !context->failed && i < plan->n_places; i++) {
        const struct place *place = &plan->place[i];
        wn_text_append_string(context, "\n\nDocument ");
        wn_text_append_number(context, (long long)i + 1);
        wn_text_append_string(context, ":\n");
        wn_text_append(context, place->paragraph, place->n_bytes);
        wn_text_append_string(context, place->paragraph[place->n_bytes] != '\0' ? "..." : "");
    }
}

static void write_question(struct wn_text_buffer *text, const char *question) {
    wn_text_append_string(text, instruction);
    wn_text_append_string(text, "\n\nQuestion: ");
    wn_text_append_string(text, question);
    wn_text_append_string(text, "\nAnswer:");
}

/* ---- samples ---- */

static wn_status open_plan(const struct wn_ruler_job *job, struct plan *plan,
                           struct wn_error *err) {
    const struct wn_qa_data *qa = job->options->qa;
    *plan = (struct plan){.job = job, .qa = qa};
    if (job->i_sample >= qa->n_questions) {
        return wn_error_set(err, WN_E_ARG, "there is no sample %lld: the file has %lld questions",
                            (long long)job->i_sample, (long long)qa->n_questions);
    }
    plan->question = &qa->question[job->i_sample];
    wn_status status = order_others(plan, err);
    if (status == WN_OK && plan->n_others == 0) {
        status = wn_error_set(err, WN_E_ARG,
                              "the file has no paragraphs besides those that question %lld needs",
                              (long long)job->i_sample + 1);
    }
    return status;
}

wn_status wn_ruler_make_questions(const struct wn_ruler_job *job, struct wn_text_buffer *context,
                                  struct wn_text_buffer *question, struct wn_ruler_sample *sample,
                                  struct wn_error *err) {
    struct plan plan;
    int64_t n_words;
    wn_status status = open_plan(job, &plan, err);
    if (status == WN_OK) {
        write_question(question, plan.question->question);
        status = wn_ruler_fit(job, write_documents, &plan, question, context, &n_words, err);
    }
    for (int i = 0; status == WN_OK && i < plan.question->n_answers; i++) {
        status = wn_ruler_add_answer(sample, plan.question->answer[i], err);
    }
    free(plan.other);
    free(plan.place);
    return status;
}
