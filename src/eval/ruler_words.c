/* SPDX-License-Identifier: MIT */
/*
 * RULER's aggregation tasks: which words of a list are the most frequent. cwe: ten words stand out
 * from many equally frequent ones. fwe: coded words follow Zipf's law, and the first is noise.
 */
#include "core/arrays.h"
#include "eval/ruler_job.h"
#include "eval/word_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Streams from STREAM_RANKS on are one for each word. */
enum { STREAM_ASKED, STREAM_RANKS };

/* ---- entries ---- */

/* A word that is to be written. */
struct entry {
    uint64_t rank; /* the text has them by ascending rank */
    int64_t word;
};

/*
 * Words in random order. Each occurrence has a rank of its own, so that those of a shorter text keep
 * their order in a longer one, and the tokens of a text grow with it.
 */
struct entries {
    struct entry *at; /* [n] */
    int64_t n, room;
    bool failed; /* out of memory */
};

static void add_entries(const struct wn_ruler_job *job, struct entries *entries, int64_t word,
                        int64_t n) {
    struct wn_rng rng;
    struct entry *larger = wn_grown(entries->at, entries->n + n, &entries->room, sizeof *larger);
    if (larger == NULL) {
        entries->failed = true;
        return;
    }
    entries->at = larger;
    wn_ruler_seed(job, STREAM_RANKS + (uint64_t)word, &rng);
    for (int64_t i = 0; i < n; i++) {
        entries->at[entries->n++] = (struct entry){wn_rng_next(&rng), word};
    }
}

static int compare_entries(const void *a, const void *b) {
    const struct entry *left = a, *right = b;
    if (left->rank != right->rank) {
        return left->rank < right->rank ? -1 : 1;
    }
    return (left->word > right->word) - (left->word < right->word);
}

static void order_entries(struct entries *entries) {
    if (entries->n > 0) {
        qsort(entries->at, (size_t)entries->n, sizeof *entries->at, compare_entries);
    }
}

/* ---- common words ---- */

enum { N_COMMON = 10 };

/* How often words occur, and how many other words the example has. */
struct frequencies {
    int n_common, n_other;
    int n_example_common, n_example_other, n_example_others;
};
/* RULER's two sets: below 4,096 tokens, and from there on. */
static const struct frequencies few = {6, 1, 3, 1, 10};
static const struct frequencies many = {30, 3, 10, 3, 30};
enum { MANY_FROM_TOKENS = 4096 };

struct common_plan {
    const struct wn_ruler_job *job;
    const struct frequencies *frequencies;
    int64_t *word;      /* [wn_n_words]: the list's words in random order */
    int64_t first_pair; /* of the pairs used when the list is exhausted */
    struct entries entries;
};

/*
 * Word number i in random order: the list's, then hyphenated pairs of those that are neither asked for
 * nor the example's answers. There are fewer than `step` of those, which is a prime, so that all pairs
 * come before one comes again.
 */
static void write_word(struct wn_text_buffer *text, const struct common_plan *plan, int64_t i) {
    if (i < wn_n_words) {
        wn_text_append_string(text, wn_word_list[plan->word[i]]);
        return;
    }
    const int64_t *word = plan->word + 2 * N_COMMON;
    const int64_t step = 100003, n = wn_n_words - 2 * N_COMMON, n_pairs = n * (n - 1);
    const int64_t pair = (plan->first_pair + (i - wn_n_words) % n_pairs * step) % n_pairs;
    const int64_t first = pair / (n - 1), other = pair % (n - 1);
    wn_text_append_string(text, wn_word_list[word[first]]);
    wn_text_append_string(text, "-");
    wn_text_append_string(text, wn_word_list[word[other + (other >= first)]]);
}

/* A numbered list of N_COMMON words from number `common` on, and n_others from number `other` on. */
static void write_list(struct wn_text_buffer *text, struct common_plan *plan, int64_t common,
                       int n_common, int64_t other, int64_t n_others, int n_other) {
    struct entries *entries = &plan->entries;
    entries->n = 0;
    for (int i = 0; i < N_COMMON; i++) {
        add_entries(plan->job, entries, common + i, n_common);
    }
    for (int64_t i = 0; i < n_others; i++) {
        add_entries(plan->job, entries, other + i, n_other);
    }
    order_entries(entries);
    for (int64_t i = 0; i < entries->n; i++) {
        wn_text_append_string(text, i > 0 ? " " : "");
        wn_text_append_number(text, (long long)i + 1);
        wn_text_append_string(text, ". ");
        write_word(text, plan, entries->at[i].word);
    }
    text->failed = text->failed || entries->failed;
}

static const char common_opening[] =
    "Some words of this numbered list occur more often than the others. Remember those.\n\n";
static const char common_question[] =
    "What are the ten words that occur most often in the list? The ten most frequent words are:";

/* Words 0 .. 9 are asked for, 10 .. 19 are the example's, the others follow. */
static void write_common(void *user, int64_t n_others, struct wn_text_buffer *context) {
    struct common_plan *plan = user;
    const struct frequencies *frequencies = plan->frequencies;
    wn_text_append_string(context, common_opening);
    write_list(context, plan, N_COMMON, frequencies->n_example_common, 2 * N_COMMON,
               frequencies->n_example_others, frequencies->n_example_other);
    wn_text_append_string(context, "\n\n");
    wn_text_append_string(context, common_question);
    for (int i = 0; i < N_COMMON; i++) {
        wn_text_append_string(context, i > 0 ? ", " : " ");
        write_word(context, plan, N_COMMON + i);
    }
    wn_text_append_string(context, ".\n\n");
    wn_text_append_string(context, common_opening);
    write_list(context, plan, 0, frequencies->n_common,
               2 * N_COMMON + frequencies->n_example_others, n_others, frequencies->n_other);
}

static wn_status open_common(const struct wn_ruler_job *job, struct common_plan *plan,
                             struct wn_error *err) {
    struct wn_rng rng;
    *plan = (struct common_plan){.job = job,
                                 .frequencies =
                                     job->options->n_tokens < MANY_FROM_TOKENS ? &few : &many,
                                 .word = calloc((size_t)wn_n_words, sizeof *plan->word)};
    if (plan->word == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for a list of words");
    }
    for (int i = 0; i < wn_n_words; i++) {
        plan->word[i] = i;
    }
    wn_ruler_seed(job, STREAM_ASKED, &rng);
    wn_shuffle(&rng, plan->word, wn_n_words);
    plan->first_pair = wn_draw_below(&rng, (int64_t)wn_n_words * (wn_n_words - 1));
    return WN_OK;
}

wn_status wn_ruler_make_common_words(const struct wn_ruler_job *job, struct wn_text_buffer *context,
                                     struct wn_text_buffer *question,
                                     struct wn_ruler_sample *sample, struct wn_error *err) {
    struct common_plan plan;
    int64_t n_others;
    wn_status status = open_common(job, &plan, err);
    if (status == WN_OK) {
        wn_text_append_string(question, common_question);
        status = wn_ruler_fit(job, write_common, &plan, question, context, &n_others, err);
    }
    for (int i = 0; status == WN_OK && i < N_COMMON; i++) {
        status = wn_ruler_add_answer(sample, wn_word_list[plan.word[i]], err);
    }
    free(plan.word);
    free(plan.entries.at);
    return status;
}

/* ---- frequent words ---- */

enum { CODE_LETTERS = 6, TOKENS_PER_WORD = 50, N_ASKED = 3, WORDS_MIN = N_ASKED + 2 };

struct frequent_plan {
    const struct wn_ruler_job *job;
    char (*word)[CODE_LETTERS + 1]; /* [n_words], the most frequent first; the first is dots */
    int64_t n_words;
    int64_t n_scaled; /* words that the law is scaled to */
    struct entries entries;
};

static const char frequent_opening[] =
    "Count how often each coded word occurs in this text. The dots are not words.\n\n";
static const char frequent_question[] =
    "What are the three coded words that occur most often in the text? Leave out the dots \"...\". "
    "The three most frequent coded words are:";

/* How often the word of a rank (1 ..) occurs among n: Zipf's law, n rank^-2 / zeta(2), rounded down.
 * zeta(2) = pi^2 / 6. */
static int64_t count_of_rank(int64_t n, int64_t rank) {
    static const double zeta = 1.6449340668482264;
    return (int64_t)floor((double)n / (zeta * (double)rank * (double)rank));
}

/* Words by the law for n, and more dots. */
static void write_frequencies(struct frequent_plan *plan, int64_t n, int64_t n_dots,
                              struct wn_text_buffer *context) {
    struct entries *entries = &plan->entries;
    entries->n = 0;
    for (int64_t w = 0; w < plan->n_words; w++) {
        add_entries(plan->job, entries, w, count_of_rank(n, w + 1) + (w == 0 ? n_dots : 0));
    }
    order_entries(entries);
    wn_text_append_string(context, frequent_opening);
    for (int64_t i = 0; i < entries->n; i++) {
        wn_text_append_string(context, i > 0 ? " " : "");
        wn_text_append_string(context, plan->word[entries->at[i].word]);
    }
    context->failed = context->failed || entries->failed;
}

/* Units are the words that the law is scaled to; what is rounded off is missing. */
static void write_frequent(void *user, int64_t n, struct wn_text_buffer *context) {
    write_frequencies(user, n, 0, context);
}

/* Units are dots: where one word more for the law brings several, they fill what is left. */
static void write_dots(void *user, int64_t n_dots, struct wn_text_buffer *context) {
    struct frequent_plan *plan = user;
    write_frequencies(plan, plan->n_scaled, n_dots, context);
}

/* Equal ones by place, so that every machine draws the same of them anew. */
static int compare_codes(const void *a, const void *b) {
    const char *left = *(char *const *)a, *right = *(char *const *)b;
    const int order = strcmp(left, right);
    return order != 0 ? order : (left > right) - (left < right);
}

/* Draws the words that are empty. */
static void draw_empty(struct frequent_plan *plan, struct wn_rng *rng) {
    for (int64_t w = 0; w < plan->n_words; w++) {
        if (plan->word[w][0] == '\0') {
            for (int c = 0; c < CODE_LETTERS; c++) {
                plan->word[w][c] = (char)('a' + wn_draw_below(rng, 26));
            }
        }
    }
}

/* Empties words that have an equal one before them; `sorted` is scratch for n_words. */
static bool empty_equal(struct frequent_plan *plan, char **sorted) {
    bool found = false;
    for (int64_t w = 0; w < plan->n_words; w++) {
        sorted[w] = plan->word[w];
    }
    qsort(sorted, (size_t)plan->n_words, sizeof *sorted, compare_codes);
    for (int64_t w = 1; w < plan->n_words; w++) {
        if (strcmp(sorted[w - 1], sorted[w]) == 0) {
            sorted[w][0] = '\0';
            found = true;
        }
    }
    return found;
}

static wn_status draw_codes(struct frequent_plan *plan, struct wn_error *err) {
    char **sorted = calloc((size_t)plan->n_words, sizeof *sorted);
    struct wn_rng rng;
    if (sorted == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the coded words");
    }
    wn_ruler_seed(plan->job, STREAM_ASKED, &rng);
    do {
        draw_empty(plan, &rng);
    } while (empty_equal(plan, sorted));
    free(sorted);
    memcpy(plan->word[0], "...", 4);
    return WN_OK;
}

static wn_status open_frequent(const struct wn_ruler_job *job, struct frequent_plan *plan,
                               struct wn_error *err) {
    const int64_t n_words = job->options->n_tokens / TOKENS_PER_WORD;
    *plan =
        (struct frequent_plan){.job = job, .n_words = n_words < WORDS_MIN ? WORDS_MIN : n_words};
    plan->word = calloc((size_t)plan->n_words, sizeof *plan->word);
    if (plan->word == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the coded words");
    }
    return draw_codes(plan, err);
}

wn_status wn_ruler_make_frequent_words(const struct wn_ruler_job *job,
                                       struct wn_text_buffer *context,
                                       struct wn_text_buffer *question,
                                       struct wn_ruler_sample *sample, struct wn_error *err) {
    const struct wn_ruler_options *options = job->options;
    struct frequent_plan plan;
    int64_t n_dots;
    wn_status status = open_frequent(job, &plan, err);
    if (status == WN_OK) {
        wn_text_append_string(question, frequent_question);
        /* A word is a token or more, and a fifth of the law's at most are rounded off. */
        status = wn_ruler_fit_below(job, write_frequent, &plan, question, 2 * options->n_tokens,
                                    options->n_tokens - options->n_new_tokens, &plan.n_scaled, err);
    }
    if (status == WN_OK) {
        status = wn_ruler_fit(job, write_dots, &plan, question, context, &n_dots, err);
    }
    if (status == WN_OK &&
        count_of_rank(plan.n_scaled, 1 + N_ASKED) <= count_of_rank(plan.n_scaled, 2 + N_ASKED)) {
        status =
            wn_error_set(err, WN_E_ARG,
                         "%lld tokens are too few: the words that fwe asks for would be no more "
                         "frequent than others",
                         (long long)options->n_tokens);
    }
    for (int i = 1; status == WN_OK && i <= N_ASKED; i++) {
        status = wn_ruler_add_answer(sample, plan.word[i], err);
    }
    free(plan.word);
    free(plan.entries.at);
    return status;
}
