/* SPDX-License-Identifier: MIT */
#include "eval/needles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tasks ---- */

enum { NEEDLES_MAX = 4, SENTENCE_WORDS_MAX = 256, DRAWS_MAX = 1000 };
enum { VALUE_MIN = 1000000, VALUE_MAX = 9999999 }; /* 7 digits */

static const struct task {
    const char *name;
    bool noise;       /* the haystack is the built-in noise, not the essay */
    int n_keys;       /* distinct keys in the context */
    int n_values;     /* numbers of each key, a needle each */
    int n_asked;      /* keys in the question */
    int n_new_tokens; /* of the answer */
} tasks[WN_NEEDLE_TASK_COUNT] = {
    [WN_NEEDLE_SINGLE_1] = {"niah_single_1", true, 1, 1, 1, 48},
    [WN_NEEDLE_SINGLE_2] = {"niah_single_2", false, 1, 1, 1, 48},
    [WN_NEEDLE_MULTIKEY_1] = {"niah_multikey_1", false, 4, 1, 1, 48},
    [WN_NEEDLE_MULTIVALUE] = {"niah_multivalue", false, 1, 4, 1, 96},
    [WN_NEEDLE_MULTIQUERY] = {"niah_multiquery", false, 4, 1, 4, 96},
};

const char *wn_needle_task_name(enum wn_needle_task task) {
    return (unsigned)task < WN_NEEDLE_TASK_COUNT ? tasks[task].name : NULL;
}

int wn_needle_task_new_tokens(enum wn_needle_task task) {
    return (unsigned)task < WN_NEEDLE_TASK_COUNT ? tasks[task].n_new_tokens : 0;
}

static const char noise[] = "The lamp is lit. The road is long. Rain falls on the roof. "
                            "A dog sleeps by the door. We walk out and we walk home.\n";

/* Keys are "adjective-noun". */
static const char *const adjectives[] = {
    "amber",   "ancient", "bitter", "bold",   "brave",  "brisk",  "calm",   "clever",  "copper",
    "crimson", "curly",   "dapper", "dusty",  "eager",  "early",  "fancy",  "fierce",  "floral",
    "fluffy",  "frozen",  "gentle", "giant",  "golden", "grumpy", "hollow", "humble",  "icy",
    "ivory",   "jolly",   "jovial", "keen",   "late",   "lively", "lonely", "lucky",   "mellow",
    "misty",   "modest",  "narrow", "noble",  "oblong", "odd",    "olive",  "patient", "plain",
    "polite",  "proud",   "purple", "quick",  "quiet",  "rapid",  "rustic", "salty",   "scarlet",
    "shiny",   "silent",  "silver", "sleepy", "snowy",  "spicy",  "stormy", "sunny",   "tidy",
    "tiny",    "vast",    "velvet", "violet", "wooden", "yellow", "zesty",
};
static const char *const nouns[] = {
    "anchor",  "apple",    "badger",  "balloon", "basket",  "beacon",  "bottle",  "bridge",
    "button",  "cactus",   "camel",   "candle",  "castle",  "cello",   "cherry",  "cloud",
    "compass", "crystal",  "dolphin", "dragon",  "engine",  "falcon",  "feather", "fiddle",
    "forest",  "fountain", "garden",  "ginger",  "glacier", "hammer",  "harbor",  "helmet",
    "island",  "jacket",   "kettle",  "ladder",  "lantern", "lemon",   "lizard",  "magnet",
    "marble",  "meadow",   "mirror",  "muffin",  "needle",  "orchard", "otter",   "parrot",
    "pebble",  "pencil",   "pillow",  "planet",  "pocket",  "puzzle",  "rabbit",  "ribbon",
    "rocket",  "saddle",   "sailor",  "spider",  "teapot",  "temple",  "thunder", "tiger",
    "turtle",  "umbrella", "valley",  "walnut",  "whistle", "window",
};
enum { N_ADJECTIVES = sizeof adjectives / sizeof adjectives[0] };
enum { N_NOUNS = sizeof nouns / sizeof nouns[0] };

/* ---- texts that grow ---- */

struct text {
    char *bytes;
    size_t n, room;
    bool failed; /* out of memory; what was appended since is missing */
};

static void append(struct text *text, const char *bytes, size_t n) {
    if (text->failed) {
        return;
    }
    if (text->n + n + 1 > text->room) {
        const size_t room = 2 * (text->n + n + 1);
        char *larger = realloc(text->bytes, room);
        if (larger == NULL) {
            text->failed = true;
            return;
        }
        text->bytes = larger;
        text->room = room;
    }
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
    text->bytes[text->n] = '\0';
}

static void append_string(struct text *text, const char *string) {
    append(text, string, strlen(string));
}

/* ---- search ---- */

/* As texts are compared: control characters are newlines, ASCII letters lower-case. */
static char folded(char c) {
    if ((unsigned char)c < 0x20) {
        return '\n';
    }
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool contains(const char *text, size_t n, const char *part) {
    const size_t n_part = strlen(part);
    for (size_t i = 0; i + n_part <= n; i++) {
        size_t j = 0;
        while (j < n_part && folded(text[i + j]) == folded(part[j])) {
            j++;
        }
        if (j == n_part) {
            return true;
        }
    }
    return false;
}

double wn_needle_score(const struct wn_needle_sample *sample, const char *prediction, size_t n) {
    int n_found = 0;
    for (int i = 0; i < sample->n_answers; i++) {
        n_found += n > 0 && contains(prediction, n, sample->answer[i]);
    }
    return sample->n_answers > 0 ? (double)n_found / sample->n_answers : 0.0;
}

/* ---- haystack: words of a text, in sentences ---- */

struct word {
    size_t offset, n_bytes;
    int n_newlines; /* behind it: 0, 1, or 2 for a paragraph's end */
    bool ends_sentence;
};

struct haystack {
    const char *text;
    size_t n_bytes;
    struct word *words;
    int64_t n_words, n_sentences;
};

static bool is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Whether a word ends with . ! or ?, quotes and brackets behind it aside. */
static bool has_full_stop(const char *word, size_t n) {
    while (n > 0 && strchr("\"')]}*_", word[n - 1]) != NULL) {
        n--;
    }
    /* U+2019 and U+201D, the closing quotation marks. */
    while (n >= 3 && (memcmp(word + n - 3, "\xe2\x80\x99", 3) == 0 ||
                      memcmp(word + n - 3, "\xe2\x80\x9d", 3) == 0)) {
        n -= 3;
    }
    return n > 0 && strchr(".!?", word[n - 1]) != NULL;
}

/* The word at or behind `offset`; false at the end of the text. */
static bool next_word(const struct haystack *haystack, size_t offset, struct word *out) {
    const char *text = haystack->text;
    const size_t n = haystack->n_bytes;
    while (offset < n && is_blank(text[offset])) {
        offset++;
    }
    size_t end = offset;
    while (end < n && !is_blank(text[end])) {
        end++;
    }
    int n_newlines = 0;
    for (size_t i = end; i < n && is_blank(text[i]); i++) {
        n_newlines += text[i] == '\n';
    }
    *out = (struct word){.offset = offset,
                         .n_bytes = end - offset,
                         .n_newlines = n_newlines < 2 ? n_newlines : 2,
                         .ends_sentence =
                             n_newlines > 0 || has_full_stop(text + offset, end - offset)};
    return end > offset;
}

static wn_status split(struct haystack *haystack, struct wn_error *err) {
    int64_t n_in_sentence = 0, room = 0;
    struct word word = {0};
    while (next_word(haystack, word.offset + word.n_bytes, &word)) {
        if (haystack->n_words == room) {
            room = 2 * room + 1024;
            struct word *larger = realloc(haystack->words, (size_t)room * sizeof *larger);
            if (larger == NULL) {
                return wn_error_set(err, WN_E_MEMORY, "out of memory while reading the essay");
            }
            haystack->words = larger;
        }
        haystack->words[haystack->n_words++] = word;
        haystack->n_sentences += word.ends_sentence;
        if (++n_in_sentence > SENTENCE_WORDS_MAX) {
            return wn_error_set(err, WN_E_ARG,
                                "the essay has a sentence of more than %d words (give prose with "
                                "sentences or lines)",
                                SENTENCE_WORDS_MAX);
        }
        n_in_sentence = word.ends_sentence ? 0 : n_in_sentence;
    }
    if (haystack->n_words == 0) {
        return wn_error_set(err, WN_E_ARG, "the essay has no words");
    }
    struct word *last = &haystack->words[haystack->n_words - 1];
    haystack->n_sentences += !last->ends_sentence;
    last->ends_sentence = true;
    last->n_newlines = 2;
    return WN_OK;
}

/* ---- what is random ---- */

struct needle {
    int key;        /* index into the plan's keys */
    char value[16]; /* 7 digits */
    double depth;   /* [0, 1] */
};

struct plan {
    const struct task *task;
    int64_t first_word;                /* of the haystack */
    char key[NEEDLES_MAX][32];         /* [n_keys]; the first n_asked are asked for */
    struct needle needle[NEEDLES_MAX]; /* [n_needles], by ascending depth */
    int n_needles;
};

static int64_t draw_below(struct wn_rng *rng, int64_t n) {
    return (int64_t)(wn_rng_uniform(rng) * (double)n);
}

/* A key may not be part of another one either, as "icy-lemon" is of "spicy-lemon". */
static bool key_is_new(const struct plan *plan, int n_keys, const char *key) {
    for (int i = 0; i < n_keys; i++) {
        if (strstr(plan->key[i], key) != NULL || strstr(key, plan->key[i]) != NULL) {
            return false;
        }
    }
    return true;
}

static bool value_is_new(const struct plan *plan, int n_needles, const char *value) {
    for (int i = 0; i < n_needles; i++) {
        if (strcmp(plan->needle[i].value, value) == 0) {
            return false;
        }
    }
    return true;
}

/* Draws until the key is new and the haystack does not have it. */
static bool draw_key(struct wn_rng *rng, const struct haystack *haystack, struct plan *plan,
                     int idx) {
    for (int i = 0; i < DRAWS_MAX; i++) {
        char *key = plan->key[idx];
        const char *adjective = adjectives[draw_below(rng, N_ADJECTIVES)];
        snprintf(key, sizeof plan->key[idx], "%s-%s", adjective, nouns[draw_below(rng, N_NOUNS)]);
        if (key_is_new(plan, idx, key) && !contains(haystack->text, haystack->n_bytes, key)) {
            return true;
        }
    }
    return false;
}

static bool draw_value(struct wn_rng *rng, const struct haystack *haystack, struct plan *plan,
                       int idx) {
    for (int i = 0; i < DRAWS_MAX; i++) {
        char *value = plan->needle[idx].value;
        const int number = VALUE_MIN + (int)draw_below(rng, VALUE_MAX - VALUE_MIN + 1);
        snprintf(value, sizeof plan->needle[idx].value, "%d", number);
        if (value_is_new(plan, idx, value) && !contains(haystack->text, haystack->n_bytes, value)) {
            return true;
        }
    }
    return false;
}

/* Distinct depths for all needles, ascending, and the needles in random order. */
static void draw_depths(struct wn_rng *rng, struct plan *plan) {
    bool taken[WN_NEEDLE_DEPTHS] = {false};
    for (int i = 0; i < plan->n_needles; i++) {
        int64_t depth = draw_below(rng, WN_NEEDLE_DEPTHS);
        while (taken[depth]) {
            depth = draw_below(rng, WN_NEEDLE_DEPTHS);
        }
        taken[depth] = true;
    }
    int n_placed = 0;
    for (int depth = 0; depth < WN_NEEDLE_DEPTHS; depth++) {
        if (taken[depth]) {
            plan->needle[n_placed++].depth = (double)depth / (WN_NEEDLE_DEPTHS - 1);
        }
    }
    for (int i = plan->n_needles - 1; i > 0; i--) {
        const int64_t j = draw_below(rng, i + 1);
        const int key = plan->needle[i].key;
        plan->needle[i].key = plan->needle[j].key;
        plan->needle[j].key = key;
    }
}

/* The first word of a random sentence. */
static int64_t draw_start(struct wn_rng *rng, const struct haystack *haystack) {
    int64_t sentence = draw_below(rng, haystack->n_sentences);
    int64_t word = 0;
    while (sentence > 0) {
        sentence -= haystack->words[word++].ends_sentence;
    }
    return word;
}

static wn_status draw_plan(const struct task *task, struct wn_rng *rng,
                           const struct haystack *haystack, struct plan *plan,
                           struct wn_error *err) {
    bool ok = true;
    *plan = (struct plan){.task = task, .n_needles = task->n_keys * task->n_values};
    plan->first_word = draw_start(rng, haystack);
    for (int k = 0; ok && k < task->n_keys; k++) {
        ok = draw_key(rng, haystack, plan, k);
    }
    for (int i = 0; ok && i < plan->n_needles; i++) {
        plan->needle[i].key = i / task->n_values;
        ok = draw_value(rng, haystack, plan, i);
    }
    if (!ok) {
        return wn_error_set(err, WN_E_ARG,
                            "the essay holds the keys or numbers to be hidden in it");
    }
    draw_depths(rng, plan);
    return WN_OK;
}

/* ---- wording ---- */

/*
 * Whether a small model answers depends on the wording. This one was chosen among some eleven by the
 * score of SmolLM2-135M-Instruct with the full cache at 1,024 tokens: 0.71 on three samples of a task
 * (0.63 on five), where the bare question "What is the secret code of amber-falcon in the text
 * above?" gave 0.39. A question that begins its own answer ("The secret code for amber-falcon is")
 * helps most, above all in the noise, which the model otherwise goes on reciting; with several keys
 * it helps to show the sentence instead.
 */

static void write_opening(struct text *context) {
    append_string(context, "Remember the secret codes that this text mentions.\n\n");
}

static void write_needle(struct text *context, const struct plan *plan,
                         const struct needle *needle) {
    append_string(context, "The secret code for ");
    append_string(context, plan->key[needle->key]);
    append_string(context, " is ");
    append_string(context, needle->value);
    append_string(context, ".");
}

/* "a", "a and b", "a, b and c". */
static void write_keys(struct text *text, const struct plan *plan, int n_keys) {
    for (int i = 0; i < n_keys; i++) {
        append_string(text, i == 0 ? "" : i < n_keys - 1 ? ", " : " and ");
        append_string(text, plan->key[i]);
    }
}

static void write_question(struct text *question, const struct plan *plan) {
    const int n_keys = plan->task->n_asked;
    if (n_keys > 1) {
        append_string(question, "What are the secret codes for ");
        write_keys(question, plan, n_keys);
        append_string(question, " that the text mentions? The text says of each: \"The secret code "
                                "for ... is ...\". The four secret codes are");
        return;
    }
    const bool several = plan->task->n_values > 1;
    append_string(question,
                  several ? "What are all the secret codes for " : "What is the secret code for ");
    write_keys(question, plan, n_keys);
    append_string(question, several ? " that the text mentions? The four secret codes for "
                                    : " that the text mentions? The secret code for ");
    write_keys(question, plan, n_keys);
    append_string(question, several ? " are" : " is");
}

/* ---- context ---- */

static const struct word *word_at(const struct haystack *haystack, int64_t i) {
    return &haystack->words[i % haystack->n_words];
}

static int64_t count_sentences(const struct haystack *haystack, int64_t first, int64_t n_words) {
    int64_t n = 0;
    for (int64_t i = 0; i < n_words; i++) {
        n += i == n_words - 1 || word_at(haystack, first + i)->ends_sentence;
    }
    return n;
}

/* Writes the needles, from number *next on, that stand behind i_sentence of n_sentences. */
static void write_needles_at(struct text *context, const struct plan *plan, int64_t i_sentence,
                             int64_t n_sentences, int *next) {
    while (*next < plan->n_needles &&
           (int64_t)(plan->needle[*next].depth * (double)n_sentences) <= i_sentence) {
        append_string(context, i_sentence > 0 ? " " : "");
        write_needle(context, plan, &plan->needle[*next]);
        append_string(context, i_sentence > 0 ? "" : " ");
        (*next)++;
    }
}

/* The context with n_words of haystack. One that ends within a sentence gets an ellipsis. */
static void write_context(struct text *context, const struct haystack *haystack,
                          const struct plan *plan, int64_t n_words) {
    static const char *const gaps[] = {" ", "\n", "\n\n"};
    const int64_t n_sentences = count_sentences(haystack, plan->first_word, n_words);
    int64_t i_sentence = 0;
    int next = 0;
    context->n = 0;
    write_opening(context);
    write_needles_at(context, plan, 0, n_sentences, &next);
    for (int64_t i = 0; i < n_words; i++) {
        const struct word *word = word_at(haystack, plan->first_word + i);
        const bool last = i == n_words - 1;
        append(context, haystack->text + word->offset, word->n_bytes);
        append_string(context, last && !word->ends_sentence ? "..." : "");
        if (last || word->ends_sentence) {
            write_needles_at(context, plan, ++i_sentence, n_sentences, &next);
        }
        append_string(context, last ? "" : gaps[word->n_newlines]);
    }
}

/* ---- length ---- */

struct sizing {
    const struct wn_needle_options *options;
    const struct haystack *haystack;
    const struct plan *plan;
    struct text *context;
    const struct text *question;
    int64_t n_tokens; /* of the prompt last written and the answer */
};

/* Writes the context with n_words and counts. */
static wn_status measure(struct sizing *sizing, int64_t n_words, struct wn_error *err) {
    const struct wn_needle_options *options = sizing->options;
    write_context(sizing->context, sizing->haystack, sizing->plan, n_words);
    if (sizing->context->failed) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for a context of %lld words",
                            (long long)n_words);
    }
    const int64_t n =
        options->count_tokens(options->user, sizing->context->bytes, sizing->context->n,
                              sizing->question->bytes, sizing->question->n);
    if (n < 0) {
        return wn_error_set(err, WN_E_BACKEND, "the tokens of the context cannot be counted");
    }
    sizing->n_tokens = n + options->n_new_tokens;
    return WN_OK;
}

/* The most words that fit are sought between n_low, which fit, and n_high, which do not. */
static wn_status search_words(struct sizing *sizing, int64_t *n_low, int64_t n_high,
                              struct wn_error *err) {
    while (n_high - *n_low > 1) {
        const int64_t middle = *n_low + (n_high - *n_low) / 2;
        const wn_status status = measure(sizing, middle, err);
        if (status != WN_OK) {
            return status;
        }
        if (sizing->n_tokens <= sizing->options->n_tokens) {
            *n_low = middle;
        } else {
            n_high = middle;
        }
    }
    return measure(sizing, *n_low, err);
}

static wn_status fit_context(struct sizing *sizing, struct wn_error *err) {
    const int64_t n_asked = sizing->options->n_tokens;
    int64_t n_low = 0, n_high = 1;
    wn_status status = measure(sizing, 0, err);
    if (status == WN_OK && sizing->n_tokens > n_asked) {
        return wn_error_set(err, WN_E_ARG,
                            "%lld tokens are too few: needles, question and answer take %lld",
                            (long long)n_asked, (long long)sizing->n_tokens);
    }
    /* A word is rarely less than a token; the limit ends a count that does not grow. */
    while (status == WN_OK && sizing->n_tokens <= n_asked && n_high <= 16 * n_asked) {
        n_low = n_high - 1;
        n_high *= 2;
        status = measure(sizing, n_high - 1, err);
    }
    if (status == WN_OK) {
        status = search_words(sizing, &n_low, n_high - 1, err);
    }
    if (status == WN_OK && (double)sizing->n_tokens < 0.98 * (double)n_asked) {
        return wn_error_set(err, WN_E_ARG,
                            "the essay cannot be cut to %lld tokens (%lld come nearest: its words "
                            "are too long)",
                            (long long)n_asked, (long long)sizing->n_tokens);
    }
    return status;
}

/* ---- samples ---- */

static wn_status check_options(enum wn_needle_task task, const struct wn_needle_options *options,
                               int64_t sample, struct wn_error *err) {
    if ((unsigned)task >= WN_NEEDLE_TASK_COUNT) {
        return wn_error_set(err, WN_E_ARG, "%d is no needle task", (int)task);
    }
    if (sample < 0) {
        return wn_error_set(err, WN_E_ARG, "sample %lld is negative", (long long)sample);
    }
    if (options->n_tokens < WN_NEEDLE_TOKENS_MIN || options->n_tokens > WN_NEEDLE_TOKENS_MAX) {
        return wn_error_set(err, WN_E_ARG, "a length of %lld tokens is out of range (%d to %d)",
                            (long long)options->n_tokens, WN_NEEDLE_TOKENS_MIN,
                            WN_NEEDLE_TOKENS_MAX);
    }
    if (options->n_new_tokens < 0 || options->n_new_tokens >= options->n_tokens) {
        return wn_error_set(err, WN_E_ARG,
                            "%lld tokens for the answer are out of range (0 to %lld)",
                            (long long)options->n_new_tokens, (long long)options->n_tokens - 1);
    }
    if (options->count_tokens == NULL) {
        return wn_error_set(err, WN_E_ARG, "a function that counts tokens is needed");
    }
    if (tasks[task].noise) {
        return WN_OK;
    }
    if (options->essay == NULL || options->n_essay_bytes == 0) {
        return wn_error_set(err, WN_E_ARG, "the essay is empty");
    }
    if (memchr(options->essay, '\0', options->n_essay_bytes) != NULL) {
        return wn_error_set(err, WN_E_ARG, "the essay has NUL bytes (give plain text)");
    }
    return WN_OK;
}

/* Hands the texts over and copies the answers, in the order of the keys asked for. */
static wn_status hand_over(const struct plan *plan, struct text *context, struct text *question,
                           struct wn_needle_sample *out, struct wn_error *err) {
    struct wn_needle_sample sample = {.context = context->bytes,
                                      .n_context = context->n,
                                      .question = question->bytes,
                                      .n_question = question->n};
    *context = (struct text){0};
    *question = (struct text){0};
    for (int k = 0; k < plan->task->n_asked; k++) {
        for (int i = 0; i < plan->n_needles; i++) {
            if (plan->needle[i].key != k) {
                continue;
            }
            char *answer = strdup(plan->needle[i].value);
            if (answer == NULL) {
                wn_needle_sample_free(&sample);
                return wn_error_set(err, WN_E_MEMORY, "out of memory for the answers");
            }
            sample.answer[sample.n_answers++] = answer;
        }
    }
    *out = sample;
    return WN_OK;
}

static wn_status generate(const struct plan *plan, const struct haystack *haystack,
                          const struct wn_needle_options *options, struct wn_needle_sample *out,
                          struct wn_error *err) {
    struct text context = {0}, question = {0};
    struct sizing sizing = {options, haystack, plan, &context, &question, 0};
    write_question(&question, plan);
    wn_status status = question.failed
                           ? wn_error_set(err, WN_E_MEMORY, "out of memory for the question")
                           : fit_context(&sizing, err);
    if (status == WN_OK) {
        status = hand_over(plan, &context, &question, out, err);
    }
    free(context.bytes);
    free(question.bytes);
    return status;
}

wn_status wn_needle_generate(enum wn_needle_task task, const struct wn_needle_options *options,
                             int64_t sample, struct wn_needle_sample *out, struct wn_error *err) {
    wn_status status = check_options(task, options, sample, err);
    if (status != WN_OK) {
        return status;
    }
    const bool is_noise = tasks[task].noise;
    struct haystack haystack = {.text = is_noise ? noise : options->essay,
                                .n_bytes = is_noise ? sizeof noise - 1 : options->n_essay_bytes};
    struct plan plan;
    struct wn_rng rng;
    wn_rng_seed(&rng, options->seed, (uint64_t)task, (uint64_t)sample, 0);
    status = split(&haystack, err);
    if (status == WN_OK) {
        status = draw_plan(&tasks[task], &rng, &haystack, &plan, err);
    }
    if (status == WN_OK) {
        status = generate(&plan, &haystack, options, out, err);
    }
    free(haystack.words);
    return status;
}

void wn_needle_sample_free(struct wn_needle_sample *sample) {
    if (sample == NULL) {
        return;
    }
    free(sample->context);
    free(sample->question);
    for (int i = 0; i < sample->n_answers; i++) {
        free(sample->answer[i]);
    }
    *sample = (struct wn_needle_sample){0};
}
