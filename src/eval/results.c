/* SPDX-License-Identifier: MIT */
#include "eval/results.h"

#include "eval/output_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char format_name[] = "winnow results";
enum { LINE_FORMAT = JSON_COMPACT | JSON_REAL_PRECISION(9) };

struct wn_results {
    FILE *file;     /* NULL: in memory */
    char *path;     /* likewise */
    json_t *header; /* object */
    json_t *cells;  /* object of cell name -> values, in the order of the file */
};

/* ---- the header ---- */

void wn_cpu_name(char *name, size_t n_bytes) {
    snprintf(name, n_bytes, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256], value[200];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "model name : %199[^\n]", value) == 1) {
            snprintf(name, n_bytes, "%s", value);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* As it reads back from a file, so that numbers compare equal. */
static json_t *as_read(json_t *object) {
    char *text = object != NULL ? json_dumps(object, LINE_FORMAT) : NULL;
    json_t *read = text != NULL ? json_loads(text, 0, NULL) : NULL;
    free(text);
    json_decref(object);
    return read;
}

static json_t *header_json(const struct wn_results_header *header) {
    char fingerprint[20], cpu[200];
    snprintf(fingerprint, sizeof fingerprint, "%016llx",
             (unsigned long long)header->model_fingerprint);
    wn_cpu_name(cpu, sizeof cpu);
    return as_read(json_pack("{s:s, s:i, s:s, s:s, s:{s:s, s:s}, s:O, s:I, s:s}", "format",
                             format_name, "version", WN_RESULTS_VERSION, "winnow", WN_VERSION,
                             "benchmark", header->benchmark, "model", "description",
                             header->model_description, "fingerprint", fingerprint, "settings",
                             header->settings, "seed", (json_int_t)header->seed, "cpu", cpu));
}

bool wn_results_is_header(const json_t *line) {
    const char *format = json_string_value(json_object_get(line, "format"));
    return format != NULL && strcmp(format, format_name) == 0;
}

/* A member as a text for messages. */
static const char *member_text(const json_t *object, const char *key, char *text, size_t n_bytes) {
    const json_t *value = json_object_get(object, key);
    char *dump = value != NULL ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(text, n_bytes, "%.60s", dump != NULL ? dump : "missing");
    free(dump);
    return text;
}

/* Says of the first member that differs how; WN_OK when none does. */
static wn_status compare_members(const json_t *theirs, const json_t *ours, const char *const *keys,
                                 size_t n_keys, struct wn_error *err) {
    for (size_t i = 0; i < n_keys; i++) {
        if (!json_equal(json_object_get(theirs, keys[i]), json_object_get(ours, keys[i]))) {
            char there[64], here[64];
            return wn_error_set(err, WN_E_FORMAT, "its %.60s is %s, and here it is %s", keys[i],
                                member_text(theirs, keys[i], there, sizeof there),
                                member_text(ours, keys[i], here, sizeof here));
        }
    }
    return WN_OK;
}

static wn_status compare_settings(const json_t *theirs, const json_t *ours, struct wn_error *err) {
    wn_status status = WN_OK;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)ours, key, value) {
        status = status == WN_OK ? compare_members(theirs, ours, &key, 1, err) : status;
    }
    if (status == WN_OK && !json_equal(theirs, ours)) {
        status = wn_error_set(err, WN_E_FORMAT, "its settings are others");
    }
    return status;
}

wn_status wn_results_compare(const json_t *theirs, const json_t *ours, struct wn_error *err) {
    static const char *const keys[] = {"version", "winnow", "benchmark", "seed"};
    wn_status status = compare_members(theirs, ours, keys, sizeof keys / sizeof keys[0], err);
    const json_t *model = json_object_get(theirs, "model");
    if (status == WN_OK &&
        !json_equal(json_object_get(model, "fingerprint"),
                    json_object_get(json_object_get(ours, "model"), "fingerprint"))) {
        char name[64];
        status = wn_error_set(err, WN_E_FORMAT, "it was measured with another model, %s",
                              member_text(model, "description", name, sizeof name));
    }
    return status == WN_OK ? compare_settings(json_object_get(theirs, "settings"),
                                              json_object_get(ours, "settings"), err)
                           : status;
}

/* ---- reading ---- */

static wn_status take_line(struct wn_results *results, const char *text, size_t n_bytes,
                           int64_t i_line, struct wn_error *err) {
    json_error_t why;
    json_t *line = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &why);
    const char *cell = json_string_value(json_object_get(line, "cell"));
    json_t *values = json_object_get(line, "values");
    wn_status status = WN_OK;
    if (wn_results_is_header(line)) {
        status = wn_results_compare(line, results->header, err);
    } else if (i_line == 1) {
        status = wn_error_set(err, WN_E_FORMAT, "it holds no results of Winnow's");
    } else if (cell == NULL || !json_is_object(values)) {
        status = wn_error_set(err, WN_E_FORMAT, "line %lld is damaged", (long long)i_line);
    } else if (json_object_get(results->cells, cell) != NULL) {
        /* As parts that were joined twice do. */
        status = json_equal(json_object_get(results->cells, cell), values)
                     ? WN_OK
                     : wn_error_set(err, WN_E_FORMAT, "line %lld has other values for a cell",
                                    (long long)i_line);
    } else if (json_object_set(results->cells, cell, values) != 0) {
        status = wn_error_set(err, WN_E_MEMORY, "out of memory");
    }
    json_decref(line);
    return status;
}

static bool is_cut_header(const char *line, size_t n) {
    static const char begin[] = "{\"format\":\"winnow results\"";
    const size_t n_begin = sizeof begin - 1;
    return memcmp(line, begin, n < n_begin ? n : n_begin) == 0;
}

/* Reads all lines that are complete, whose bytes go to *n_bytes. */
static wn_status read_lines(struct wn_results *results, off_t *n_bytes, struct wn_error *err) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n = 0;
    wn_status status = WN_OK;
    *n_bytes = 0;
    for (int64_t i = 1; status == WN_OK; i++) {
        n = getline(&line, &capacity, results->file);
        if (n < 0 && !feof(results->file)) {
            status = wn_error_set(err, WN_E_IO, "it cannot be read: %s", strerror(errno));
            break;
        }
        /* The beginning of a header that did not get to its end, on a full disk. */
        if (i == 1 && n > 0 && line[n - 1] != '\n' && is_cut_header(line, (size_t)n)) {
            break;
        }
        /* What a first line without an end is can only be seen from what it says. */
        if (n <= 0 || (line[n - 1] != '\n' && i > 1)) {
            break;
        }
        status = take_line(results, line, (size_t)n, i, err);
        *n_bytes += line[n - 1] == '\n' ? n : 0;
    }
    free(line);
    if (status == WN_OK && ferror(results->file)) {
        status = wn_error_set(err, WN_E_IO, "it cannot be read");
    }
    return status;
}

/* ---- writing ---- */

/* A cell as its line has it; NULL without memory. */
static json_t *cell_json(const char *cell, json_t *values) {
    return json_pack("{s:s, s:O}", "cell", cell, "values", values);
}

static wn_status write_line(struct wn_results *results, const json_t *line, struct wn_error *err) {
    if (line == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for a result");
    }
    if (results->file == NULL) {
        return WN_OK;
    }
    if (json_dumpf(line, results->file, LINE_FORMAT) != 0 || fputc('\n', results->file) == EOF ||
        fflush(results->file) != 0) {
        return wn_error_set(err, WN_E_IO, "cannot write %.300s (is the disk full?)", results->path);
    }
    return WN_OK;
}

wn_status wn_results_add(struct wn_results *results, const char *cell, json_t *values,
                         struct wn_error *err) {
    json_t *line = values != NULL ? cell_json(cell, values) : NULL;
    wn_status status =
        wn_results_find(results, cell) == NULL
            ? write_line(results, line, err)
            : wn_error_set(err, WN_E_ARG, "the cell '%.200s' is there already", cell);
    if (status == WN_OK && json_object_set(results->cells, cell, values) != 0) {
        status = wn_error_set(err, WN_E_MEMORY, "out of memory for a result");
    }
    json_decref(line);
    json_decref(values);
    return status;
}

/* ---- the file ---- */

/* Reads a file that is there, cuts off a line that is not complete, and stands at its end. */
static wn_status resume(struct wn_results *results, struct wn_error *err) {
    const int fd = fileno(results->file);
    struct stat info;
    off_t n_bytes = 0;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return wn_error_set(err, WN_E_IO, "it is not a file");
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return wn_error_set(err, WN_E_IO, "another process writes it");
    }
    if (info.st_size > WN_RESULTS_FILE_MAX_BYTES) {
        return wn_error_set(err, WN_E_FORMAT, "it is too large to hold results");
    }
    wn_status status = read_lines(results, &n_bytes, err);
    if (status == WN_OK &&
        (ftruncate(fd, n_bytes) != 0 || fseeko(results->file, 0, SEEK_END) != 0)) {
        status = wn_error_set(err, WN_E_IO, "%s", strerror(errno));
    }
    if (status == WN_OK && n_bytes == 0) {
        status = write_line(results, results->header, err);
    }
    return status;
}

static wn_status open_file(struct wn_results *results, const char *path, struct wn_error *err) {
    struct wn_error why = {0};
    /* A file that is there is written to in its place, whatever its folder. */
    struct stat info;
    const bool is_there = stat(path, &info) == 0 && S_ISREG(info.st_mode);
    const wn_status place = is_there ? WN_OK : wn_output_check(path, err);
    if (place != WN_OK) {
        return place;
    }
    wn_status status = WN_OK;
    const int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    results->path = strdup(path);
    results->file = fd >= 0 ? fdopen(fd, "a+") : NULL;
    if (results->file == NULL || results->path == NULL) {
        status = wn_error_set(err, WN_E_IO, "cannot open %.300s (%s)", path, strerror(errno));
        if (results->file == NULL && fd >= 0) {
            close(fd);
        }
        return status;
    }
    rewind(results->file);
    status = resume(results, &why);
    return status == WN_OK
               ? WN_OK
               : wn_error_set(err, status, "cannot go on with %.200s (%s; name another file)", path,
                              why.message);
}

wn_status wn_results_open(const char *path, const struct wn_results_header *header,
                          struct wn_results **out, struct wn_error *err) {
    struct wn_results *results = calloc(1, sizeof *results);
    wn_status status = WN_E_MEMORY;
    if (results != NULL) {
        results->header = header_json(header);
        results->cells = json_object();
    }
    if (results == NULL || results->header == NULL || results->cells == NULL) {
        wn_error_set(err, WN_E_MEMORY, "out of memory for results");
    } else {
        status = path != NULL ? open_file(results, path, err) : WN_OK;
    }
    if (status != WN_OK) {
        wn_results_close(results);
        return status;
    }
    *out = results;
    return WN_OK;
}

void wn_results_close(struct wn_results *results) {
    if (results == NULL) {
        return;
    }
    if (results->file != NULL) {
        fclose(results->file);
    }
    free(results->path);
    json_decref(results->header);
    json_decref(results->cells);
    free(results);
}

const json_t *wn_results_find(const struct wn_results *results, const char *cell) {
    return json_object_get(results->cells, cell);
}

size_t wn_results_n(const struct wn_results *results) {
    return json_object_size(results->cells);
}

json_t *wn_results_list_cells(json_t *cells) {
    json_t *list = json_array(), *values;
    const char *cell;
    bool ok = list != NULL;
    json_object_foreach(cells, cell, values) {
        ok = ok && json_array_append_new(list, cell_json(cell, values)) == 0;
    }
    if (!ok) {
        json_decref(list);
        return NULL;
    }
    return list;
}

json_t *wn_results_json(const struct wn_results *results) {
    json_t *whole = json_copy(results->header);
    if (json_object_set_new(whole, "cells", wn_results_list_cells(results->cells)) != 0) {
        json_decref(whole);
        return NULL;
    }
    return whole;
}
