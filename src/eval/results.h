/* SPDX-License-Identifier: MIT */
/*
 * What a benchmark measured, as a file that grows. A benchmark consists of cells, each with a name
 * that tells it from all others ("decode length=4096 keep=20% ..."); what was measured of a cell is
 * a JSON object. The file has a line of JSON for each:
 *
 *     {"format": "winnow results", "version": 1, "winnow": "0.1.0", "benchmark": "speed",
 *      "model": {"description": ..., "fingerprint": ...}, "settings": {...}, "seed": 0, "cpu": ...}
 *     {"cell": "decode length=4096 keep=20% ...", "values": {...}}
 *     ...
 *
 * A line is written as soon as its cell is measured, so that a benchmark that is stopped goes on
 * from there: opening the file again reads what there is. A last line that was cut off is removed.
 * Several files of the same header (shards), one behind the other, are one file too. Only one
 * process at a time has a file open.
 */
#ifndef WN_EVAL_RESULTS_H
#define WN_EVAL_RESULTS_H

#include "winnow_core.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wn_results;

/* What all cells have in common. A file with another header is refused, but for the model's
 * description and the CPU: where values depend on the CPU it belongs into the settings. */
struct wn_results_header {
    const char *benchmark;         /* "speed" */
    const char *model_description; /* for readers */
    uint64_t model_fingerprint;    /* wn_model_fingerprint */
    uint64_t seed;
    const json_t *settings; /* object: all that values depend on and a cell's name does not tell */
};

/*
 * Makes the file at `path`, or opens the one that is there to go on with; NULL: the results stay in
 * memory. With one sentence, naming the file: WN_E_IO (it cannot be read or written, or another
 * process has it open), WN_E_FORMAT (it holds no results, is damaged, or was made by another
 * benchmark or version, with another model or other settings), WN_E_MEMORY. A file that is refused
 * is left as it was.
 */
wn_status wn_results_open(const char *path, const struct wn_results_header *header,
                          struct wn_results **out, struct wn_error *err);
/* NULL is allowed. */
void wn_results_close(struct wn_results *results);

/* The values of a cell, owned by the results; NULL: it was not measured. */
const json_t *wn_results_find(const struct wn_results *results, const char *cell);
/* Cells that are there. */
size_t wn_results_n(const struct wn_results *results);

/*
 * Adds a cell that is not there and writes its line. `values`, an object, is taken over, also on
 * failure; NULL, as failed constructors of jansson give, is WN_E_MEMORY. WN_E_IO: the file could not
 * be written, and its last line may be cut off.
 */
wn_status wn_results_add(struct wn_results *results, const char *cell, json_t *values,
                         struct wn_error *err);

/* The header and all cells as one new object {header's members, "cells": [{"cell", "values"}]}, in
 * the order in which they were measured; NULL without memory. */
json_t *wn_results_json(const struct wn_results *results);

/* ---- for those who read files of any benchmark (report_runs.h) ---- */

enum { WN_RESULTS_VERSION = 1 };
/* Far more than any benchmark writes. */
enum { WN_RESULTS_FILE_MAX_BYTES = 1 << 30 };
/* Whether a line is a header of results, of any version. */
bool wn_results_is_header(const json_t *line);
/* Cells, an object of names and values, as wn_results_json has them: a new array; NULL without memory. */
json_t *wn_results_list_cells(json_t *cells);
/* WN_OK when two headers may stand in one file; WN_E_FORMAT with a part of a sentence that says what
 * differs. */
wn_status wn_results_compare(const json_t *theirs, const json_t *ours, struct wn_error *err);

/* The CPU's name as the system tells it, or "unknown", into name [n_bytes], n_bytes >= 8. */
void wn_cpu_name(char *name, size_t n_bytes);

#endif
