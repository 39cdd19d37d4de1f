/* SPDX-License-Identifier: MIT */
#include "eval/report_runs.h"

#include "eval/results.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct reader {
    json_t *runs; /* array of headers; "cells" is an object of name -> values while reading */
    const char *path;
    json_t *run; /* of the file that is read; borrowed; NULL before its header */
    int64_t i_line;
};

/* ---- sentences ---- */

static wn_status refuse_line(const struct reader *reader, const char *why, struct wn_error *err) {
    return wn_error_set(err, WN_E_FORMAT, "cannot report %.200s (line %lld %s)", reader->path,
                        (long long)reader->i_line, why);
}

static wn_status refuse_file(const struct reader *reader, wn_status status, const char *why,
                             struct wn_error *err) {
    return wn_error_set(err, status, "cannot report %.200s (%s)", reader->path, why);
}

static wn_status no_memory(struct wn_error *err) {
    return wn_error_set(err, WN_E_MEMORY, "out of memory for the results");
}

/* ---- headers ---- */

/* Names of all machines, each once. */
static bool add_cpu(json_t *run, const json_t *header) {
    const char *known = json_string_value(json_object_get(run, "cpu"));
    const char *cpu = json_string_value(json_object_get(header, "cpu"));
    if (cpu == NULL || (known != NULL && strstr(known, cpu) != NULL)) {
        return true;
    }
    json_t *both = known != NULL ? json_sprintf("%s; %s", known, cpu) : json_string(cpu);
    return json_object_set_new(run, "cpu", both) == 0;
}

/* The run that the header continues, or a new one. */
static wn_status find_run(struct reader *reader, json_t *header, struct wn_error *err) {
    size_t i;
    json_t *run;
    json_array_foreach(reader->runs, i, run) {
        if (wn_results_compare(header, run, NULL) == WN_OK) {
            reader->run = run;
            return add_cpu(run, header) ? WN_OK : no_memory(err);
        }
    }
    if (json_object_set_new(header, "cells", json_object()) != 0 ||
        json_array_append(reader->runs, header) != 0) {
        return no_memory(err);
    }
    reader->run = header;
    return WN_OK;
}

static wn_status take_header(struct reader *reader, json_t *header, struct wn_error *err) {
    struct wn_error why = {0};
    const json_int_t version = json_integer_value(json_object_get(header, "version"));
    if (version < 1) {
        return refuse_line(
            reader, "is damaged: its version is no whole number from 1; restore the file", err);
    }
    if (version != WN_RESULTS_VERSION) {
        return wn_error_set(err, WN_E_FORMAT,
                            "cannot report %.200s (line %lld: results of version %lld, and this "
                            "program reads version %d; use the program that wrote them)",
                            reader->path, (long long)reader->i_line, (long long)version,
                            WN_RESULTS_VERSION);
    }
    if (!json_is_string(json_object_get(header, "benchmark")) ||
        !json_is_object(json_object_get(header, "settings"))) {
        return refuse_line(reader, "is damaged: a header without benchmark or settings", err);
    }
    if (reader->run == NULL) {
        return find_run(reader, header, err);
    }
    if (wn_results_compare(header, reader->run, &why) != WN_OK) {
        return wn_error_set(
            err, WN_E_FORMAT,
            "cannot report %.200s (line %lld begins other results: %.200s; give them "
            "as a file of their own)",
            reader->path, (long long)reader->i_line, why.message);
    }
    return add_cpu(reader->run, header) ? WN_OK : no_memory(err);
}

/* ---- lines ---- */

static wn_status take_cell(struct reader *reader, const char *cell, json_t *values,
                           struct wn_error *err) {
    json_t *cells = json_object_get(reader->run, "cells");
    const json_t *known = json_object_get(cells, cell);
    if (known == NULL) {
        return json_object_set(cells, cell, values) == 0 ? WN_OK : no_memory(err);
    }
    return json_equal(known, values)
               ? WN_OK
               : wn_error_set(err, WN_E_FORMAT,
                              "cannot report %.150s (line %lld: the cell '%.150s' was measured "
                              "before with other values; leave one of them out)",
                              reader->path, (long long)reader->i_line, cell);
}

static wn_status take_line(struct reader *reader, const char *text, size_t n_bytes,
                           struct wn_error *err) {
    json_t *line = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *cell = json_string_value(json_object_get(line, "cell"));
    json_t *values = json_object_get(line, "values");
    const bool is_cut = text[n_bytes - 1] != '\n';
    wn_status status = WN_OK;
    if (wn_results_is_header(line)) {
        status = take_header(reader, line, err);
    } else if (reader->run == NULL) {
        status =
            refuse_file(reader, WN_E_FORMAT,
                        "it holds no results of Winnow's; give a file that `winnow bench ... -o "
                        "FILE` wrote",
                        err);
    } else if (cell != NULL && json_is_object(values)) {
        status = take_cell(reader, cell, values, err);
    } else if (!is_cut || line != NULL) {
        status = refuse_line(reader, "is damaged; restore the file, or take the line out", err);
    }
    json_decref(line);
    return status;
}

static wn_status read_lines(struct reader *reader, FILE *file, struct wn_error *err) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t n;
    wn_status status = WN_OK;
    while (status == WN_OK && (n = getline(&line, &capacity, file)) > 0) {
        reader->i_line++;
        status = take_line(reader, line, (size_t)n, err);
    }
    /* Without memory for a line there is no error of the file either. */
    if (status == WN_OK && !feof(file)) {
        status = refuse_file(reader, WN_E_IO, strerror(errno), err);
    } else if (status == WN_OK && reader->i_line == 0) {
        status = refuse_file(reader, WN_E_FORMAT, "it is empty", err);
    }
    free(line);
    return status;
}

static wn_status read_file(struct reader *reader, struct wn_error *err) {
    struct stat info;
    FILE *file = fopen(reader->path, "r");
    reader->run = NULL;
    reader->i_line = 0;
    if (file == NULL) {
        return refuse_file(reader, WN_E_IO, strerror(errno), err);
    }
    wn_status status = WN_OK;
    if (fstat(fileno(file), &info) != 0 || S_ISDIR(info.st_mode)) {
        status = refuse_file(reader, WN_E_IO, "it is a folder; name files", err);
    } else if (info.st_size > WN_RESULTS_FILE_MAX_BYTES) {
        status = refuse_file(reader, WN_E_FORMAT, "it is too large to hold results", err);
    } else {
        status = read_lines(reader, file, err);
    }
    fclose(file);
    return status;
}

/* ---- the whole ---- */

static wn_status list_cells(json_t *run, struct wn_error *err) {
    json_t *list = wn_results_list_cells(json_object_get(run, "cells"));
    return json_object_set_new(run, "cells", list) == 0 ? WN_OK : no_memory(err);
}

wn_status wn_report_runs_read(const char *const *paths, int n_paths, json_t **runs,
                              struct wn_error *err) {
    struct reader reader = {.runs = json_array()};
    wn_status status = reader.runs != NULL ? WN_OK : no_memory(err);
    for (int i = 0; status == WN_OK && i < n_paths; i++) {
        reader.path = paths[i];
        status = read_file(&reader, err);
    }
    for (size_t i = 0; status == WN_OK && i < json_array_size(reader.runs); i++) {
        status = list_cells(json_array_get(reader.runs, i), err);
    }
    if (status != WN_OK) {
        json_decref(reader.runs);
        return status;
    }
    *runs = reader.runs;
    return WN_OK;
}
