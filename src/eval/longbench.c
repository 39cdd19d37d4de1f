/* SPDX-License-Identifier: MIT */
#include "eval/longbench.h"

#include "eval/text_metrics.h"

#include <string.h>

/* ---- subsets ---- */

/*
 * The prompts are worded by us. They name the same parts in the same order as the official ones and ask
 * for the same form of answer, which the metrics go by.
 */
#define FEW_WORDS "Answer with as few words as possible, and do not explain."
#define PASSAGES                                                                                  \
    "Use these passages to answer the question at the end. " FEW_WORDS "\n\nPassages:\n{context}" \
    "\n\nUse the passages above to answer this question. " FEW_WORDS "\n\nQuestion: {input}\n"    \
    "Answer:"

static const struct wn_longbench_info subsets[WN_LONGBENCH_SUBSET_COUNT] = {
    [WN_LONGBENCH_NARRATIVEQA] =
        {"narrativeqa", 128, WN_LONGBENCH_TOKEN_F1, true, false,
         "Read this story, a book or a film script, and answer the question at the end. " FEW_WORDS
         "\n\nStory: {context}\n\nAnswer this question about the story. " FEW_WORDS
         "\n\nQuestion: {input}\n\nAnswer:"},
    [WN_LONGBENCH_QASPER] =
        {"qasper", 128, WN_LONGBENCH_TOKEN_F1, true, false,
         "Read this scientific article and answer the question at the end. " FEW_WORDS
         " If the article does not tell, answer \"unanswerable\"; to a question of yes or no "
         "answer "
         "\"yes\", \"no\" or \"unanswerable\".\n\nArticle: {context}\n\nAnswer this question about "
         "the "
         "article. " FEW_WORDS " If the article does not tell, answer \"unanswerable\"; to a "
         "question of yes or no answer "
         "\"yes\", \"no\" or \"unanswerable\".\n\nQuestion: {input}\n\nAnswer:"},
    [WN_LONGBENCH_MULTIFIELDQA_EN] =
        {"multifieldqa_en", 64, WN_LONGBENCH_TOKEN_F1, true, false,
         "Read this text and answer the question at the end briefly.\n\n{context}\n\nAnswer this "
         "question about the text. Give the answer alone.\n\nQuestion: {input}\nAnswer:"},
    [WN_LONGBENCH_HOTPOTQA] = {"hotpotqa", 32, WN_LONGBENCH_TOKEN_F1, true, false, PASSAGES},
    [WN_LONGBENCH_2WIKIMQA] = {"2wikimqa", 32, WN_LONGBENCH_TOKEN_F1, true, false, PASSAGES},
    [WN_LONGBENCH_MUSIQUE] = {"musique", 32, WN_LONGBENCH_TOKEN_F1, true, false, PASSAGES},
    [WN_LONGBENCH_GOV_REPORT] = {"gov_report", 512, WN_LONGBENCH_ROUGE_L, true, false,
                                 "Summarise this report of a government agency on one "
                                 "page.\n\nReport:\n{context}\n\nSummarise "
                                 "the report on one page.\n\nSummary:"},
    [WN_LONGBENCH_QMSUM] =
        {"qmsum", 512, WN_LONGBENCH_ROUGE_L, true, false,
         "Read this transcript of a meeting and answer what is asked at the end in a few sentences."
         "\n\nTranscript:\n{context}\n\nAnswer this about the meeting in a few sentences.\n\n"
         "Query: {input}\nAnswer:"},
    [WN_LONGBENCH_MULTI_NEWS] = {"multi_news", 512, WN_LONGBENCH_ROUGE_L, true, false,
                                 "Summarise these news articles together on one "
                                 "page.\n\nNews:\n{context}\n\nSummarise all of "
                                 "the news on one page.\n\nSummary:"},
    [WN_LONGBENCH_TREC] =
        {"trec", 64, WN_LONGBENCH_CLASSIFICATION, false, true,
         "Name the type of the last question, as in these examples.\n\n{context}\n"
         "{input}"},
    [WN_LONGBENCH_TRIVIAQA] = {"triviaqa", 32, WN_LONGBENCH_TOKEN_F1, false, true,
                               "Answer the last question from its passage, with the answer alone, "
                               "as in these examples.\n\n"
                               "{context}\n\n{input}"},
    [WN_LONGBENCH_SAMSUM] = {"samsum", 128, WN_LONGBENCH_ROUGE_L, false, true,
                             "Summarise the last dialogue in a few short sentences, as in these "
                             "examples.\n\n{context}\n\n{input}"},
    [WN_LONGBENCH_PASSAGE_COUNT] =
        {"passage_count", 32, WN_LONGBENCH_COUNT, true, false,
         "Some of these numbered paragraphs may be copies of others. Read them and find how many "
         "different ones there are.\n\n{context}\n\nHow many different paragraphs are there, "
         "copies not "
         "counted? Answer with the number alone, such as 1, 2 or 3.\n\nThe number is: "},
    [WN_LONGBENCH_PASSAGE_RETRIEVAL_EN] = {"passage_retrieval_en", 32, WN_LONGBENCH_RETRIEVAL, true,
                                           false,
                                           "One of these paragraphs is summarised at the end. Find "
                                           "out which.\n\n{context}\n\nThis is the "
                                           "summary.\n\n{input}\n\nWhich paragraph does it "
                                           "summarise? Answer in the form \"Paragraph 1\", "
                                           "\"Paragraph 2\".\n\nThe answer is: "},
    [WN_LONGBENCH_LCC] = {"lcc", 64, WN_LONGBENCH_CODE_SIMILARITY, false, false,
                          "Complete this code.\n{context}Next line of code:\n"},
    [WN_LONGBENCH_REPOBENCH_P] = {"repobench-p", 64, WN_LONGBENCH_CODE_SIMILARITY, false, false,
                                  "Complete this code.\n{context}{input}Next line of code:\n"},
};

const struct wn_longbench_info *wn_longbench_info(enum wn_longbench_subset subset) {
    return (unsigned)subset < WN_LONGBENCH_SUBSET_COUNT ? &subsets[subset] : NULL;
}

/* ---- prompts ---- */

/* What a format has at a place. */
enum part { PART_TEXT, PART_CONTEXT, PART_INPUT, PART_BRACE, PART_BAD };

static enum part part_at(const char *format, size_t *n) {
    static const struct {
        const char *written;
        enum part part;
    } parts[] = {{"{context}", PART_CONTEXT},
                 {"{input}", PART_INPUT},
                 {"{{", PART_BRACE},
                 {"}}", PART_BRACE}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *n = strlen(parts[i].written);
        if (strncmp(format, parts[i].written, *n) == 0) {
            return parts[i].part;
        }
    }
    *n = strcspn(format, "{}");
    return *n > 0 ? PART_TEXT : PART_BAD;
}

static wn_status check_format(const char *format, struct wn_error *err) {
    int n_contexts = 0;
    size_t n;
    for (const char *at = format; *at != '\0'; at += n) {
        const enum part part = part_at(at, &n);
        if (part == PART_BAD) {
            return wn_error_set(err, WN_E_FORMAT,
                                "the prompt's format has a brace at byte %lld that begins neither "
                                "{context} nor {input} (write {{ or }} for a brace)",
                                (long long)(at - format) + 1);
        }
        if (part == PART_INPUT && n_contexts == 0) {
            return wn_error_set(err, WN_E_FORMAT,
                                "the prompt's format has {input} before {context} (what stands "
                                "before is compressed without knowing the question)");
        }
        n_contexts += part == PART_CONTEXT;
    }
    return n_contexts == 1
               ? WN_OK
               : wn_error_set(err, WN_E_FORMAT,
                              "the prompt's format has {context} %d times (once is needed)",
                              n_contexts);
}

wn_status wn_longbench_write_prompt(const char *format, const struct wn_longbench_example *example,
                                    struct wn_text_buffer *context, struct wn_text_buffer *question,
                                    struct wn_error *err) {
    const wn_status status = check_format(format, err);
    if (status != WN_OK) {
        return status;
    }
    struct wn_text_buffer *out = context;
    size_t n;
    wn_text_append_string(question, ""); /* a text, even if nothing follows */
    for (const char *at = format; *at != '\0'; at += n) {
        switch (part_at(at, &n)) {
        case PART_CONTEXT:
            wn_text_append_string(out, example->context);
            out = question;
            break;
        case PART_INPUT:
            wn_text_append_string(out, example->input);
            break;
        case PART_BRACE:
            wn_text_append(out, at, 1);
            break;
        default:
            wn_text_append(out, at, n);
            break;
        }
    }
    return context->failed || question->failed
               ? wn_error_set(err, WN_E_MEMORY, "out of memory for a prompt")
               : WN_OK;
}

int64_t wn_longbench_cut_middle(int32_t *token, int64_t n, int64_t n_max, int64_t *n_context) {
    if (n <= n_max) {
        return n;
    }
    const int64_t half = n_max > 0 ? n_max / 2 : 0;
    const int64_t n_head = *n_context < half ? *n_context : half;
    const int64_t n_tail = *n_context - (n - half);
    memmove(token + half, token + (n - half), (size_t)half * sizeof *token);
    *n_context = n_head + (n_tail > 0 ? n_tail : 0);
    return 2 * half;
}

/* ---- scores ---- */

static struct wn_text_view first_line(struct wn_text_view text) {
    while (text.n > 0 && text.bytes[0] == '\n') {
        text.bytes++;
        text.n--;
    }
    const char *end = text.n > 0 ? memchr(text.bytes, '\n', text.n) : NULL;
    text.n = end != NULL ? (size_t)(end - text.bytes) : text.n;
    return text;
}

bool wn_longbench_is_final(enum wn_longbench_subset subset, const char *prediction, size_t n) {
    const struct wn_longbench_info *info = wn_longbench_info(subset);
    const struct wn_text_view text = {prediction, n};
    if (info == NULL || n == 0) {
        return false;
    }
    if (info->metric == WN_LONGBENCH_CODE_SIMILARITY) {
        return wn_metric_code_ends(text);
    }
    const struct wn_text_view line = first_line(text);
    return info->first_line && line.n > 0 && line.bytes + line.n < prediction + n;
}

static wn_status score_reference(enum wn_longbench_metric metric,
                                 const struct wn_longbench_example *example,
                                 struct wn_text_view prediction, struct wn_text_view reference,
                                 double *score, struct wn_error *err) {
    switch (metric) {
    case WN_LONGBENCH_TOKEN_F1:
        return wn_metric_token_f1(prediction, reference, score, err);
    case WN_LONGBENCH_ROUGE_L:
        return wn_metric_rouge_l(prediction, reference, score, err);
    case WN_LONGBENCH_CLASSIFICATION:
        return wn_metric_classification(prediction, reference,
                                        (const char *const *)example->class_name,
                                        example->n_class_names, score, err);
    case WN_LONGBENCH_RETRIEVAL:
        return wn_metric_retrieval(prediction, reference, score, err);
    case WN_LONGBENCH_COUNT:
        return wn_metric_count(prediction, reference, score, err);
    case WN_LONGBENCH_CODE_SIMILARITY:
        return wn_metric_code_similarity(prediction, reference, score, err);
    }
    return wn_error_set(err, WN_E_ARG, "%d is no metric", (int)metric);
}

wn_status wn_longbench_score(enum wn_longbench_subset subset,
                             const struct wn_longbench_example *example, const char *prediction,
                             size_t n, double *score, struct wn_error *err) {
    const struct wn_longbench_info *info = wn_longbench_info(subset);
    struct wn_text_view text = {prediction, n};
    double best = 0.0;
    if (info == NULL) {
        return wn_error_set(err, WN_E_ARG, "%d is no subset of LongBench", (int)subset);
    }
    text = info->first_line ? first_line(text) : text;
    for (int i = 0; i < example->n_answers; i++) {
        double one = 0.0;
        const wn_status status = score_reference(info->metric, example, text,
                                                 wn_text_view(example->answer[i]), &one, err);
        if (status != WN_OK) {
            return status;
        }
        best = one > best ? one : best;
    }
    *score = best;
    return WN_OK;
}
