/* SPDX-License-Identifier: MIT */
#include "eval/qa_data.h"

#include "core/arrays.h"
#include "eval/string_list.h"
#include "eval/text_buffer.h"
#include "eval/text_file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* What is filled, and where each paragraph stands in it. */
struct reader {
    struct wn_qa_data data;
    int64_t paragraph_room, question_room;
    json_t *index; /* paragraph -> its number */
    bool failed;   /* out of memory */
};

/* ---- paragraphs ---- */

static bool is_blank(const char *text) {
    return text[strspn(text, " \t\n\v\f\r")] == '\0';
}

/* The paragraph's number; -1 for a blank one, or without memory. */
static int64_t add_paragraph(struct reader *reader, const char *text) {
    struct wn_qa_data *data = &reader->data;
    const json_t *known = json_object_get(reader->index, text);
    if (known != NULL) {
        return json_integer_value(known);
    }
    if (is_blank(text)) {
        return -1;
    }
    char **larger =
        wn_grown(data->paragraph, data->n_paragraphs + 1, &reader->paragraph_room, sizeof *larger);
    data->paragraph = larger != NULL ? larger : data->paragraph;
    char *copy = larger != NULL ? strdup(text) : NULL;
    if (copy == NULL ||
        json_object_set_new(reader->index, text, json_integer(data->n_paragraphs)) != 0) {
        free(copy);
        reader->failed = true;
        return -1;
    }
    data->paragraph[data->n_paragraphs] = copy;
    return data->n_paragraphs++;
}

/* ---- questions ---- */

static void free_question(struct wn_qa_question *question) {
    free(question->question);
    wn_free_arrays(question->answer, question->n_answers);
    free(question->paragraph);
}

/* Leaves out what is not a text, blank, or there already. */
static void add_answer(struct reader *reader, struct wn_qa_question *question,
                       const json_t *answer) {
    const char *text = json_string_value(answer);
    if (text == NULL || is_blank(text)) {
        return;
    }
    for (int i = 0; i < question->n_answers; i++) {
        if (strcmp(question->answer[i], text) == 0) {
            return;
        }
    }
    if (!wn_strings_add(&question->answer, &question->n_answers, text)) {
        reader->failed = true;
    }
}

/* Leaves out what is there already; behind the required ones unless `required`. */
static void add_own(struct wn_qa_question *question, int64_t paragraph, bool required) {
    for (int64_t i = 0; i < question->n_paragraphs; i++) {
        if (question->paragraph[i] == paragraph) {
            return;
        }
    }
    if (paragraph >= 0) {
        question->paragraph[question->n_paragraphs++] = paragraph;
        question->n_required += required;
    }
}

static bool can_be_answered(const struct wn_qa_data *data, const struct wn_qa_question *question) {
    for (int64_t p = 0; p < question->n_required; p++) {
        const char *paragraph = data->paragraph[question->paragraph[p]];
        for (int i = 0; i < question->n_answers; i++) {
            if (wn_text_contains(paragraph, strlen(paragraph), question->answer[i])) {
                return true;
            }
        }
    }
    return false;
}

/* Takes the question over, or counts it as skipped. */
static void finish_question(struct reader *reader, const json_t *text,
                            struct wn_qa_question *question) {
    struct wn_qa_data *data = &reader->data;
    const char *words = json_string_value(text);
    bool ok = words != NULL && !is_blank(words) && can_be_answered(data, question);
    data->n_skipped += !ok;
    if (ok) {
        struct wn_qa_question *larger =
            wn_grown(data->question, data->n_questions + 1, &reader->question_room, sizeof *larger);
        data->question = larger != NULL ? larger : data->question;
        question->question = larger != NULL ? strdup(words) : NULL;
        reader->failed = reader->failed || question->question == NULL;
    }
    if (!ok || reader->failed) {
        free_question(question);
        return;
    }
    data->question[data->n_questions++] = *question;
}

/* ---- SQuAD ---- */

static void read_squad_question(struct reader *reader, const json_t *qa, int64_t required,
                                const int64_t *article, int64_t n_article) {
    struct wn_qa_question question = {0};
    size_t i;
    json_t *answer;
    question.paragraph = calloc((size_t)n_article + 1, sizeof *question.paragraph);
    if (question.paragraph == NULL) {
        reader->failed = true;
        return;
    }
    json_array_foreach(json_object_get(qa, "answers"), i, answer) {
        add_answer(reader, &question, json_object_get(answer, "text"));
    }
    add_own(&question, required, true);
    for (int64_t p = 0; p < n_article; p++) {
        add_own(&question, article[p], false);
    }
    finish_question(reader, json_object_get(qa, "question"), &question);
}

static void read_article(struct reader *reader, const json_t *paragraphs) {
    const size_t n = json_array_size(paragraphs);
    int64_t *number = calloc(n + 1, sizeof *number);
    if (number == NULL) {
        reader->failed = true;
        return;
    }
    for (size_t p = 0; p < n; p++) {
        const char *text =
            json_string_value(json_object_get(json_array_get(paragraphs, p), "context"));
        number[p] = text != NULL ? add_paragraph(reader, text) : -1;
    }
    for (size_t p = 0; p < n; p++) {
        size_t i;
        json_t *qa;
        json_array_foreach(json_object_get(json_array_get(paragraphs, p), "qas"), i, qa) {
            if (!json_is_true(json_object_get(qa, "is_impossible"))) {
                read_squad_question(reader, qa, number[p], number, (int64_t)n);
            }
        }
    }
    free(number);
}

static bool read_squad(struct reader *reader, const json_t *root) {
    const json_t *articles = json_object_get(root, "data");
    size_t i;
    json_t *article;
    json_array_foreach(articles, i, article) {
        if (!reader->failed) {
            read_article(reader, json_object_get(article, "paragraphs"));
        }
    }
    return json_is_array(articles);
}

/* ---- HotpotQA ---- */

/* "title\n" and the sentences, joined. */
static int64_t add_titled(struct reader *reader, const json_t *pair) {
    struct wn_text_buffer text = {0};
    const char *title = json_string_value(json_array_get(pair, 0));
    size_t i;
    json_t *sentence;
    bool ok = title != NULL;
    wn_text_append_string(&text, ok ? title : "");
    wn_text_append_string(&text, "\n");
    json_array_foreach(json_array_get(pair, 1), i, sentence) {
        ok = ok && json_is_string(sentence);
        wn_text_append_string(&text, ok ? json_string_value(sentence) : "");
    }
    reader->failed = reader->failed || text.failed;
    const int64_t number = ok && !reader->failed ? add_paragraph(reader, text.bytes) : -1;
    free(text.bytes);
    return number;
}

/* Whether the facts name the paragraph; without facts all are needed. */
static bool is_supporting(const json_t *facts, const json_t *pair) {
    const char *title = json_string_value(json_array_get(pair, 0));
    size_t i;
    json_t *fact;
    json_array_foreach(facts, i, fact) {
        const char *named = json_string_value(json_array_get(fact, 0));
        if (named != NULL && title != NULL && strcmp(named, title) == 0) {
            return true;
        }
    }
    return json_array_size(facts) == 0;
}

static void read_hotpotqa_question(struct reader *reader, const json_t *entry) {
    const json_t *context = json_object_get(entry, "context");
    const json_t *facts = json_object_get(entry, "supporting_facts");
    struct wn_qa_question question = {0};
    question.paragraph = calloc(json_array_size(context) + 1, sizeof *question.paragraph);
    if (question.paragraph == NULL) {
        reader->failed = true;
        return;
    }
    add_answer(reader, &question, json_object_get(entry, "answer"));
    for (int required = 1; required >= 0; required--) {
        size_t i;
        json_t *pair;
        json_array_foreach(context, i, pair) {
            if (is_supporting(facts, pair) == (required == 1)) {
                add_own(&question, add_titled(reader, pair), required == 1);
            }
        }
    }
    finish_question(reader, json_object_get(entry, "question"), &question);
}

static bool read_hotpotqa(struct reader *reader, const json_t *root) {
    size_t i;
    json_t *entry;
    json_array_foreach(root, i, entry) {
        if (!reader->failed) {
            read_hotpotqa_question(reader, entry);
        }
    }
    return json_is_array(root);
}

/* ---- files ---- */

static wn_status read_root(const char *path, enum wn_qa_format format, const json_t *root,
                           struct wn_qa_data *out, struct wn_error *err) {
    struct reader reader = {.index = json_object()};
    wn_status status = WN_OK;
    const bool ok =
        format == WN_QA_SQUAD ? read_squad(&reader, root) : read_hotpotqa(&reader, root);
    if (reader.failed || reader.index == NULL) {
        status = wn_error_set(err, WN_E_MEMORY, "out of memory for the questions of %.200s", path);
    } else if (!ok) {
        status = wn_error_set(err, WN_E_FORMAT, "%.200s is not in the format of %s", path,
                              format == WN_QA_SQUAD ? "SQuAD" : "HotpotQA");
    } else if (reader.data.n_questions == 0) {
        status = wn_error_set(err, WN_E_FORMAT,
                              "%.200s has no question that can be used (%lld are malformed, or no "
                              "paragraph holds an answer)",
                              path, (long long)reader.data.n_skipped);
    }
    json_decref(reader.index);
    if (status != WN_OK) {
        wn_qa_data_free(&reader.data);
        return status;
    }
    *out = reader.data;
    return WN_OK;
}

wn_status wn_qa_data_read(const char *path, enum wn_qa_format format, struct wn_qa_data *out,
                          struct wn_error *err) {
    struct wn_text_file file = {0};
    wn_status status = wn_text_file_read(path, &file, err);
    if (status != WN_OK) {
        return status;
    }
    json_error_t error;
    json_t *root = json_loadb(file.bytes, file.n_bytes, 0, &error);
    struct wn_content_hash hash;
    wn_content_hash(file.bytes, file.n_bytes, &hash);
    wn_text_file_free(&file);
    if (root == NULL) {
        return wn_error_set(err, WN_E_FORMAT, "%.200s is not JSON (line %d: %.160s)", path,
                            error.line, error.text);
    }
    status = read_root(path, format, root, out, err);
    json_decref(root);
    if (status == WN_OK) {
        out->hash = hash;
    }
    return status;
}

void wn_qa_data_free(struct wn_qa_data *data) {
    for (int64_t i = 0; i < data->n_paragraphs; i++) {
        free(data->paragraph[i]);
    }
    for (int64_t i = 0; i < data->n_questions; i++) {
        free_question(&data->question[i]);
    }
    free(data->paragraph);
    free(data->question);
    *data = (struct wn_qa_data){0};
}
