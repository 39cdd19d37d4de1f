/* SPDX-License-Identifier: MIT */
/*
 * RULER's retrieval tasks ("needles in a haystack"): a few facts, each a key and a value, stand
 * somewhere in a long text, and a question asks for some of them.
 */
#include "eval/ruler_haystack.h"
#include "eval/ruler_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tasks ---- */

enum { NEEDLES_MAX = 4, DRAWS_MAX = 1000, PART_BYTES = 40, SENTENCE_BYTES = 128 };
enum { VALUE_MIN = 1000000, VALUE_MAX = 9999999 }; /* 7 digits */
enum { STREAM_ASKED, STREAM_OTHERS };

enum haystack_kind { NOISE, ESSAY, OTHER_NEEDLES };

static const struct task {
    enum haystack_kind haystack;
    int n_keys;   /* distinct keys asked for or like those */
    int n_values; /* values of each key, a needle each */
    int n_asked;  /* keys in the question */
    bool uuid_keys, uuid_values;
} tasks[] = {
    [WN_RULER_NIAH_SINGLE_1] = {NOISE, 1, 1, 1, false, false},
    [WN_RULER_NIAH_SINGLE_2] = {ESSAY, 1, 1, 1, false, false},
    [WN_RULER_NIAH_MULTIKEY_1] = {ESSAY, 4, 1, 1, false, false},
    [WN_RULER_NIAH_MULTIVALUE] = {ESSAY, 1, 4, 1, false, false},
    [WN_RULER_NIAH_MULTIQUERY] = {ESSAY, 4, 1, 4, false, false},
    [WN_RULER_NIAH_SINGLE_3] = {ESSAY, 1, 1, 1, false, true},
    [WN_RULER_NIAH_MULTIKEY_2] = {OTHER_NEEDLES, 1, 1, 1, false, false},
    [WN_RULER_NIAH_MULTIKEY_3] = {OTHER_NEEDLES, 1, 1, 1, true, true},
};

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

/* ---- what is random ---- */

struct needle {
    int key; /* index into the plan's keys */
    char value[PART_BYTES];
    double depth; /* [0, 1] */
};

/* Other needles, as many as were needed so far: the same ones at every length. */
struct others {
    struct wn_rng rng;
    struct wn_text_buffer text; /* a line each */
};

struct plan {
    const struct task *task;
    struct wn_haystack haystack;       /* unless it is made of other needles */
    int64_t first_word;                /* of the haystack */
    char key[NEEDLES_MAX][PART_BYTES]; /* [n_keys]; the first n_asked are asked for */
    struct needle needle[NEEDLES_MAX]; /* [n_needles], by ascending depth */
    char sentence[NEEDLES_MAX][SENTENCE_BYTES];
    struct wn_insertion insertion[NEEDLES_MAX]; /* the needles' sentences */
    int n_needles;
    struct others others;
};

/* 122 random bits as a version 4 UUID (RFC 9562). */
static void draw_uuid(struct wn_rng *rng, char out[PART_BYTES]) {
    const uint64_t high = wn_rng_next(rng), low = wn_rng_next(rng);
    snprintf(out, PART_BYTES, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(high >> 32),
             (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xfff),
             (unsigned)(low >> 48 & 0x3fff) | 0x8000u, (unsigned long long)(low & 0xffffffffffffu));
}

static void draw_key(struct wn_rng *rng, const struct task *task, char out[PART_BYTES]) {
    if (task->uuid_keys) {
        draw_uuid(rng, out);
        return;
    }
    const char *adjective = adjectives[wn_draw_below(rng, N_ADJECTIVES)];
    snprintf(out, PART_BYTES, "%s-%s", adjective, nouns[wn_draw_below(rng, N_NOUNS)]);
}

static void draw_value(struct wn_rng *rng, const struct task *task, char out[PART_BYTES]) {
    if (task->uuid_values) {
        draw_uuid(rng, out);
        return;
    }
    const int number = VALUE_MIN + (int)wn_draw_below(rng, VALUE_MAX - VALUE_MIN + 1);
    snprintf(out, PART_BYTES, "%d", number);
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

static bool haystack_holds(const struct plan *plan, const char *part) {
    return wn_text_contains(plan->haystack.text, plan->haystack.n_bytes, part);
}

/* Draws until the key is new and the haystack does not have it. */
static bool draw_new_key(struct wn_rng *rng, struct plan *plan, int idx) {
    for (int i = 0; i < DRAWS_MAX; i++) {
        draw_key(rng, plan->task, plan->key[idx]);
        if (key_is_new(plan, idx, plan->key[idx]) && !haystack_holds(plan, plan->key[idx])) {
            return true;
        }
    }
    return false;
}

static bool draw_new_value(struct wn_rng *rng, struct plan *plan, int idx) {
    for (int i = 0; i < DRAWS_MAX; i++) {
        char *value = plan->needle[idx].value;
        draw_value(rng, plan->task, value);
        if (value_is_new(plan, idx, value) && !haystack_holds(plan, value)) {
            return true;
        }
    }
    return false;
}

/* Distinct depths for all needles, ascending, and the needles in random order. */
static void place_needles(struct wn_rng *rng, struct plan *plan) {
    double depth[NEEDLES_MAX];
    wn_draw_depths(rng, depth, plan->n_needles);
    for (int i = 0; i < plan->n_needles; i++) {
        plan->needle[i].depth = depth[i];
    }
    for (int i = plan->n_needles - 1; i > 0; i--) {
        const int64_t j = wn_draw_below(rng, i + 1);
        const int key = plan->needle[i].key;
        plan->needle[i].key = plan->needle[j].key;
        plan->needle[j].key = key;
    }
}

static wn_status draw_plan(struct wn_rng *rng, struct plan *plan, struct wn_error *err) {
    const struct task *task = plan->task;
    bool ok = true;
    plan->n_needles = task->n_keys * task->n_values;
    if (task->haystack != OTHER_NEEDLES) {
        plan->first_word = wn_haystack_draw_start(&plan->haystack, rng);
    }
    for (int k = 0; ok && k < task->n_keys; k++) {
        ok = draw_new_key(rng, plan, k);
    }
    for (int i = 0; ok && i < plan->n_needles; i++) {
        plan->needle[i].key = i / task->n_values;
        ok = draw_new_value(rng, plan, i);
    }
    if (!ok) {
        return wn_error_set(err, WN_E_ARG,
                            "the essay holds the keys or numbers to be hidden in it");
    }
    place_needles(rng, plan);
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

static const char opening[] = "Remember the secret codes that this text mentions.\n\n";

static void write_sentence(char out[SENTENCE_BYTES], const char *key, const char *value) {
    snprintf(out, SENTENCE_BYTES, "The secret code for %s is %s.", key, value);
}

/* "a", "a and b", "a, b and c". */
static void write_keys(struct wn_text_buffer *text, const struct plan *plan, int n_keys) {
    for (int i = 0; i < n_keys; i++) {
        wn_text_append_string(text, i == 0 ? "" : i < n_keys - 1 ? ", " : " and ");
        wn_text_append_string(text, plan->key[i]);
    }
}

static void write_question(struct wn_text_buffer *question, const struct plan *plan) {
    const int n_keys = plan->task->n_asked;
    if (n_keys > 1) {
        wn_text_append_string(question, "What are the secret codes for ");
        write_keys(question, plan, n_keys);
        wn_text_append_string(question,
                              " that the text mentions? The text says of each: \"The secret code "
                              "for ... is ...\". The four secret codes are");
        return;
    }
    const bool several = plan->task->n_values > 1;
    wn_text_append_string(question, several ? "What are all the secret codes for "
                                            : "What is the secret code for ");
    write_keys(question, plan, n_keys);
    wn_text_append_string(question, several ? " that the text mentions? The four secret codes for "
                                            : " that the text mentions? The secret code for ");
    write_keys(question, plan, n_keys);
    wn_text_append_string(question, several ? " are" : " is");
}

/* ---- contexts ---- */

/* Units are words. */
static void write_in_haystack(void *user, int64_t n_words, struct wn_text_buffer *context) {
    const struct plan *plan = user;
    wn_text_append_string(context, opening);
    wn_haystack_write(context, &plan->haystack, plan->first_word, n_words, plan->insertion,
                      plan->n_needles);
}

/* Makes other needles up to n_bytes of text. None has the key asked for, nor its value. */
static void grow_others(struct plan *plan, size_t n_bytes) {
    struct others *others = &plan->others;
    while (others->text.n < n_bytes && !others->text.failed) {
        char key[PART_BYTES], value[PART_BYTES], sentence[SENTENCE_BYTES];
        do {
            draw_key(&others->rng, plan->task, key);
        } while (!key_is_new(plan, 1, key));
        do {
            draw_value(&others->rng, plan->task, value);
        } while (!value_is_new(plan, 1, value));
        write_sentence(sentence, key, value);
        wn_text_append_string(&others->text, sentence);
        wn_text_append_string(&others->text, "\n");
    }
}

/* Units are bytes of the other needles: one of them alone can be more than 2 % of a length. */
static void write_among_others(void *user, int64_t n_bytes, struct wn_text_buffer *context) {
    struct plan *plan = user;
    const struct wn_insertion *asked = &plan->insertion[0];
    grow_others(plan, (size_t)n_bytes);
    const char *text = plan->others.text.bytes;
    const size_t n = plan->others.text.n < (size_t)n_bytes ? plan->others.text.n : (size_t)n_bytes;
    context->failed = context->failed || plan->others.text.failed;
    int64_t n_lines = n > 0 && text[n - 1] != '\n';
    for (size_t i = 0; i < n; i++) {
        n_lines += text[i] == '\n';
    }
    int64_t n_before = (int64_t)(asked->depth * (double)n_lines);
    size_t at = 0;
    while (n_before > 0 && at < n) {
        n_before -= text[at++] == '\n';
    }
    const bool is_cut = n > 0 && text[n - 1] != '\n';
    wn_text_append_string(context, opening);
    wn_text_append(context, text, at);
    wn_text_append_string(context, at == n && is_cut ? "...\n" : "");
    wn_text_append_string(context, asked->sentence);
    wn_text_append_string(context, at < n ? "\n" : "");
    wn_text_append(context, at < n ? text + at : "", n - at);
    wn_text_append_string(context, at < n && is_cut ? "..." : "");
}

/* ---- samples ---- */

static wn_status open_plan(const struct wn_ruler_job *job, struct plan *plan,
                           struct wn_error *err) {
    const struct wn_ruler_options *options = job->options;
    struct wn_rng rng;
    wn_status status = WN_OK;
    *plan = (struct plan){.task = &tasks[job->task]};
    wn_ruler_seed(job, STREAM_ASKED, &rng);
    wn_ruler_seed(job, STREAM_OTHERS, &plan->others.rng);
    if (plan->task->haystack == NOISE) {
        status = wn_haystack_of_noise(&plan->haystack, err);
    } else if (plan->task->haystack == ESSAY) {
        status = wn_haystack_split(options->essay, options->n_essay_bytes, &plan->haystack, err);
    }
    if (status == WN_OK) {
        status = draw_plan(&rng, plan, err);
    }
    for (int i = 0; status == WN_OK && i < plan->n_needles; i++) {
        const struct needle *needle = &plan->needle[i];
        write_sentence(plan->sentence[i], plan->key[needle->key], needle->value);
        plan->insertion[i] = (struct wn_insertion){needle->depth, plan->sentence[i]};
    }
    return status;
}

static void close_plan(struct plan *plan) {
    wn_haystack_free(&plan->haystack);
    free(plan->others.text.bytes);
}

/* The values, in the order of the keys asked for. */
static wn_status add_answers(const struct plan *plan, struct wn_ruler_sample *sample,
                             struct wn_error *err) {
    wn_status status = WN_OK;
    for (int k = 0; k < plan->task->n_asked; k++) {
        for (int i = 0; status == WN_OK && i < plan->n_needles; i++) {
            if (plan->needle[i].key == k) {
                status = wn_ruler_add_answer(sample, plan->needle[i].value, err);
            }
        }
    }
    return status;
}

wn_status wn_ruler_make_needles(const struct wn_ruler_job *job, struct wn_text_buffer *context,
                                struct wn_text_buffer *question, struct wn_ruler_sample *sample,
                                struct wn_error *err) {
    struct plan plan;
    int64_t n_units;
    wn_status status = open_plan(job, &plan, err);
    if (status == WN_OK) {
        write_question(question, &plan);
        status = wn_ruler_fit(
            job, plan.task->haystack == OTHER_NEEDLES ? write_among_others : write_in_haystack,
            &plan, question, context, &n_units, err);
    }
    if (status == WN_OK) {
        status = add_answers(&plan, sample, err);
    }
    close_plan(&plan);
    return status;
}
