/* SPDX-License-Identifier: MIT */
#include "eval/longbench_data.h"

#include "core/arrays.h"
#include "eval/string_list.h"
#include "eval/text_file.h"
#include "eval/text_metrics.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 4096, WHY_BYTES = 256 };

/* ---- folders ---- */

static wn_status path_of(const char *folder, enum wn_longbench_subset subset, char path[PATH_BYTES],
                         struct wn_error *err) {
    const int n =
        snprintf(path, PATH_BYTES, "%s/%s.jsonl", folder, wn_longbench_info(subset)->name);
    return n < PATH_BYTES ? WN_OK
                          : wn_error_set(err, WN_E_IO, "the path of the data folder is too long");
}

wn_status wn_longbench_find(const char *folder, bool found[WN_LONGBENCH_SUBSET_COUNT],
                            struct wn_error *err) {
    bool present[WN_LONGBENCH_SUBSET_COUNT];
    bool any = false;
    struct stat info;
    if (stat(folder, &info) != 0) {
        return wn_error_set(err, WN_E_IO, "cannot open %.200s (%s; check the path)", folder,
                            strerror(errno));
    }
    if (!S_ISDIR(info.st_mode)) {
        return wn_error_set(err, WN_E_IO,
                            "%.200s is not a folder (give the one with LongBench's "
                            "files)",
                            folder);
    }
    for (int s = 0; s < WN_LONGBENCH_SUBSET_COUNT; s++) {
        char path[PATH_BYTES];
        const wn_status status = path_of(folder, (enum wn_longbench_subset)s, path, err);
        if (status != WN_OK) {
            return status;
        }
        present[s] = stat(path, &info) == 0;
        any = any || present[s];
    }
    if (!any) {
        return wn_error_set(
            err, WN_E_FORMAT,
            "%.200s has no file of LongBench's English subsets (narrativeqa.jsonl, for "
            "example)",
            folder);
    }
    memcpy(found, present, sizeof present);
    return WN_OK;
}

wn_status wn_longbench_hash(const char *folder, const bool found[WN_LONGBENCH_SUBSET_COUNT],
                            struct wn_content_hash *out, struct wn_error *err) {
    struct wn_text_buffer all = {0};
    wn_status status = WN_OK;
    for (int s = 0; status == WN_OK && s < WN_LONGBENCH_SUBSET_COUNT; s++) {
        struct wn_content_hash one;
        char path[PATH_BYTES];
        if (!found[s]) {
            continue;
        }
        status = path_of(folder, (enum wn_longbench_subset)s, path, err);
        status = status == WN_OK ? wn_content_hash_file(path, &one, err) : status;
        if (status == WN_OK) {
            wn_text_append_string(&all, wn_longbench_info((enum wn_longbench_subset)s)->name);
            wn_text_append_string(&all, one.text);
        }
    }
    if (status == WN_OK && all.failed) {
        status = wn_error_set(err, WN_E_MEMORY, "out of memory for the files' hash");
    }
    if (status == WN_OK) {
        wn_content_hash(all.bytes, all.n, out);
    }
    free(all.bytes);
    return status;
}

/* ---- lines ---- */

/* What is filled; why a line is skipped. */
struct reader {
    enum wn_longbench_subset subset;
    struct wn_longbench_set set;
    int64_t room;
    char why[WHY_BYTES]; /* empty: the line can be used */
    bool failed;         /* out of memory */
};

static void skip(struct reader *reader, const char *why) {
    if (reader->why[0] == '\0') {
        snprintf(reader->why, sizeof reader->why, "%s", why);
    }
}

static void free_example(struct wn_longbench_example *example) {
    free(example->id);
    free(example->input);
    free(example->context);
    wn_free_arrays(example->answer, example->n_answers);
    wn_free_arrays(example->class_name, example->n_class_names);
}

static char *copy_of(struct reader *reader, const char *text) {
    char *copy = strdup(text);
    reader->failed = reader->failed || copy == NULL;
    return copy;
}

static char *read_text(struct reader *reader, const json_t *object, const char *key,
                       const char *why) {
    const char *text = json_string_value(json_object_get(object, key));
    if (text == NULL) {
        skip(reader, why);
        return NULL;
    }
    return copy_of(reader, text);
}

/* An array of texts; anything else gives none. */
static void read_texts(struct reader *reader, const json_t *array, char ***list, int *n) {
    size_t i;
    json_t *entry;
    json_array_foreach(array, i, entry) {
        const char *text = json_string_value(entry);
        if (text == NULL) {
            wn_free_arrays(*list, *n);
            *list = NULL;
            *n = 0;
            return;
        }
        reader->failed = reader->failed || !wn_strings_add(list, n, text);
    }
}

static void check_references(struct reader *reader, const struct wn_longbench_example *example) {
    const enum wn_longbench_metric metric = wn_longbench_info(reader->subset)->metric;
    if (metric == WN_LONGBENCH_CLASSIFICATION && example->n_class_names == 0) {
        skip(reader, "no class names in \"all_classes\"");
    }
    for (int i = 0; metric == WN_LONGBENCH_RETRIEVAL && i < example->n_answers; i++) {
        if (!wn_metric_has_paragraph(wn_text_view(example->answer[i]))) {
            skip(reader, "an answer does not name a paragraph");
        }
    }
}

static void read_id(struct reader *reader, const json_t *object, int64_t line,
                    struct wn_longbench_example *example) {
    char numbered[32];
    const char *id = json_string_value(json_object_get(object, "_id"));
    snprintf(numbered, sizeof numbered, "line %lld", (long long)line);
    example->id = copy_of(reader, id != NULL ? id : numbered);
}

static void read_example(struct reader *reader, const json_t *object, int64_t line,
                         struct wn_longbench_example *example) {
    const char *name = json_string_value(json_object_get(object, "dataset"));
    if (name != NULL && strcmp(name, wn_longbench_info(reader->subset)->name) != 0) {
        skip(reader, "it belongs to another data set");
    }
    read_id(reader, object, line, example);
    example->input = read_text(reader, object, "input", "no text \"input\"");
    example->context = read_text(reader, object, "context", "no text \"context\"");
    read_texts(reader, json_object_get(object, "answers"), &example->answer, &example->n_answers);
    read_texts(reader, json_object_get(object, "all_classes"), &example->class_name,
               &example->n_class_names);
    if (example->n_answers == 0) {
        skip(reader, "no texts \"answers\"");
    }
    example->n_words = json_integer_value(json_object_get(object, "length"));
    check_references(reader, example);
}

static void keep_example(struct reader *reader, const struct wn_longbench_example *example) {
    struct wn_longbench_set *set = &reader->set;
    struct wn_longbench_example *larger =
        wn_grown(set->example, set->n + 1, &reader->room, sizeof *larger);
    if (larger == NULL) {
        reader->failed = true;
        return;
    }
    set->example = larger;
    set->example[set->n++] = *example;
}

static void read_line(struct reader *reader, const char *bytes, size_t n, int64_t line,
                      wn_longbench_note *note, void *user) {
    struct wn_longbench_example example = {.id = NULL};
    json_error_t error;
    json_t *object = json_loadb(bytes, n, 0, &error);
    reader->why[0] = '\0';
    if (object == NULL) {
        snprintf(reader->why, sizeof reader->why, "not JSON: %s", error.text);
    } else if (!json_is_object(object)) {
        skip(reader, "not a JSON object");
    } else {
        read_example(reader, object, line, &example);
    }
    json_decref(object);
    if (reader->why[0] == '\0' && !reader->failed) {
        keep_example(reader, &example);
    }
    if (reader->why[0] != '\0' || reader->failed) {
        free_example(&example);
    }
    if (reader->why[0] != '\0') {
        reader->set.n_skipped++;
        if (note != NULL) {
            note(user, line, reader->why);
        }
    }
}

/* ---- files ---- */

static void read_lines(struct reader *reader, const struct wn_text_file *file,
                       wn_longbench_note *note, void *user) {
    int64_t line = 1;
    for (size_t begin = 0; begin < file->n_bytes && !reader->failed; line++) {
        const char *at = file->bytes + begin;
        const char *newline = memchr(at, '\n', file->n_bytes - begin);
        const size_t n = newline != NULL ? (size_t)(newline - at) : file->n_bytes - begin;
        const size_t n_blank = strspn(at, " \t\r");
        if (n_blank < n) {
            read_line(reader, at, n, line, note, user);
        }
        begin += n + 1;
    }
}

wn_status wn_longbench_read(const char *folder, enum wn_longbench_subset subset,
                            wn_longbench_note *note, void *user, struct wn_longbench_set *out,
                            struct wn_error *err) {
    struct reader reader = {.subset = subset};
    struct wn_text_file file = {0};
    char path[PATH_BYTES];
    if (wn_longbench_info(subset) == NULL) {
        return wn_error_set(err, WN_E_ARG, "%d is no subset of LongBench", (int)subset);
    }
    wn_status status = path_of(folder, subset, path, err);
    if (status == WN_OK) {
        status = wn_text_file_read(path, &file, err);
    }
    if (status != WN_OK) {
        return status;
    }
    read_lines(&reader, &file, note, user);
    wn_text_file_free(&file);
    if (reader.failed) {
        status = wn_error_set(err, WN_E_MEMORY, "out of memory for the examples of %.200s", path);
    } else if (reader.set.n == 0) {
        status = wn_error_set(err, WN_E_FORMAT,
                              "%.200s has no example that can be used (%lld lines were skipped)",
                              path, (long long)reader.set.n_skipped);
    }
    if (status != WN_OK) {
        wn_longbench_set_free(&reader.set);
        return status;
    }
    *out = reader.set;
    return WN_OK;
}

void wn_longbench_set_free(struct wn_longbench_set *set) {
    for (int64_t i = 0; i < set->n; i++) {
        free_example(&set->example[i]);
    }
    free(set->example);
    *set = (struct wn_longbench_set){0};
}

/* ---- prompts ---- */

/* A prompt that is made of the format tells whether it can be used. */
static wn_status check_prompt(const char *name, const char *format, struct wn_error *err) {
    struct wn_longbench_example example = {.input = (char *)"", .context = (char *)""};
    struct wn_text_buffer context = {0}, question = {0};
    struct wn_error why = {0};
    const wn_status status = wn_longbench_write_prompt(format, &example, &context, &question, &why);
    free(context.bytes);
    free(question.bytes);
    return status == WN_OK ? WN_OK : wn_error_set(err, status, "%s: %s", name, why.message);
}

static wn_status take_prompts(const json_t *root, struct wn_longbench_prompts *out,
                              struct wn_error *err) {
    wn_status status = WN_OK;
    for (int s = 0; status == WN_OK && s < WN_LONGBENCH_SUBSET_COUNT; s++) {
        const struct wn_longbench_info *info = wn_longbench_info((enum wn_longbench_subset)s);
        const json_t *given = json_object_get(root, info->name);
        out->is_ours[s] = given == NULL;
        if (given != NULL && !json_is_string(given)) {
            return wn_error_set(err, WN_E_FORMAT, "%s: the prompt's format is not a text",
                                info->name);
        }
        const char *format = given != NULL ? json_string_value(given) : info->prompt;
        status = check_prompt(info->name, format, err);
        out->format[s] = status == WN_OK ? strdup(format) : NULL;
        if (status == WN_OK && out->format[s] == NULL) {
            status = wn_error_set(err, WN_E_MEMORY, "out of memory for the prompts' formats");
        }
    }
    return status;
}

static wn_status load_prompts(const char *path, json_t **out, struct wn_error *err) {
    struct wn_text_file file = {0};
    json_error_t error;
    const wn_status status = wn_text_file_read(path, &file, err);
    if (status != WN_OK) {
        return status;
    }
    json_t *root = json_loadb(file.bytes, file.n_bytes, 0, &error);
    wn_text_file_free(&file);
    if (!json_is_object(root)) {
        json_decref(root);
        return wn_error_set(err, WN_E_FORMAT, "%.200s is not a JSON object of prompt formats",
                            path);
    }
    *out = root;
    return WN_OK;
}

wn_status wn_longbench_prompts_read(const char *path, struct wn_longbench_prompts *out,
                                    struct wn_error *err) {
    struct wn_longbench_prompts prompts = {.format = {NULL}};
    json_t *root = NULL;
    wn_status status = path != NULL ? load_prompts(path, &root, err) : WN_OK;
    if (status == WN_OK) {
        status = take_prompts(root, &prompts, err);
    }
    json_decref(root);
    if (status != WN_OK) {
        wn_longbench_prompts_free(&prompts);
        return status;
    }
    *out = prompts;
    return WN_OK;
}

void wn_longbench_prompts_free(struct wn_longbench_prompts *prompts) {
    for (int s = 0; s < WN_LONGBENCH_SUBSET_COUNT; s++) {
        free(prompts->format[s]);
    }
    *prompts = (struct wn_longbench_prompts){.format = {NULL}};
}
