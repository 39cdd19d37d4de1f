/* SPDX-License-Identifier: MIT */
#include "eval/report_cells.h"

#include <math.h>
#include <string.h>

/* ---- cells ---- */

size_t wn_report_n_cells(const json_t *run) {
    return json_array_size(json_object_get(run, "cells"));
}

struct wn_report_reader wn_report_cell_at(const json_t *run, size_t i) {
    const json_t *cell = json_array_get(json_object_get(run, "cells"), i);
    const char *name = json_string_value(json_object_get(cell, "cell"));
    return (struct wn_report_reader){.cell = name != NULL ? name : "?",
                                     .values = json_object_get(cell, "values")};
}

static void lack(struct wn_report_reader *reader, const char *key) {
    reader->lacks = reader->lacks != NULL ? reader->lacks : key;
}

double wn_report_read_number(struct wn_report_reader *reader, const char *key) {
    const json_t *value = json_object_get(reader->values, key);
    if (json_is_number(value)) {
        return json_number_value(value);
    }
    if (!json_is_null(value)) {
        lack(reader, key);
    }
    return NAN;
}

double wn_report_read_within(struct wn_report_reader *reader, const char *key, double least,
                             double most) {
    const double value = wn_report_read_number(reader, key);
    if (!(value >= least && value <= most)) {
        lack(reader, key);
    }
    return value;
}

double wn_report_read_least(struct wn_report_reader *reader, const char *key, double least) {
    const double value = wn_report_read_number(reader, key);
    if (value < least) {
        lack(reader, key);
    }
    return value;
}

double wn_report_read_optional(const struct wn_report_reader *reader, const char *key) {
    const json_t *value = json_object_get(reader->values, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *wn_report_read_word(struct wn_report_reader *reader, const char *key) {
    const char *word = json_string_value(json_object_get(reader->values, key));
    if (word == NULL) {
        lack(reader, key);
    }
    return word != NULL ? word : "";
}

size_t wn_report_read_array(const struct wn_report_reader *reader, const char *key,
                            const json_t **array) {
    *array = json_object_get(reader->values, key);
    return json_array_size(*array);
}

wn_status wn_report_read_end(const struct wn_report_reader *reader, struct wn_error *err) {
    return reader->lacks == NULL
               ? WN_OK
               : wn_error_set(err, WN_E_FORMAT,
                              "the cell '%.200s' cannot be reported (it has no %.40s that makes "
                              "sense; measure it again)",
                              reader->cell, reader->lacks);
}

/* ---- what occurs ---- */

int wn_report_name_index(struct wn_report *report, struct wn_report_names *names,
                         const char *word) {
    for (int i = 0; i < names->n; i++) {
        if (strcmp(names->name[i], word) == 0) {
            return i;
        }
    }
    void *array = names->name;
    if (!wn_report_make_room(report, &array, names->n, &names->room, sizeof *names->name)) {
        return -1;
    }
    names->name = array;
    names->name[names->n] = word;
    return names->n++;
}

/* Where a number stands, or would. */
static int place_of(const struct wn_report_numbers *numbers, double value) {
    int low = 0, high = numbers->n;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (numbers->value[middle] < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int wn_report_numbers_index(const struct wn_report_numbers *numbers, double value) {
    const int place = place_of(numbers, value);
    return place < numbers->n && numbers->value[place] == value ? place : -1;
}

int wn_report_numbers_closest(const struct wn_report_numbers *numbers, double value) {
    int closest = 0;
    for (int i = 1; i < numbers->n; i++) {
        if (fabs(numbers->value[i] - value) < fabs(numbers->value[closest] - value)) {
            closest = i;
        }
    }
    return closest;
}

void wn_report_numbers_add(struct wn_report *report, struct wn_report_numbers *numbers,
                           double value) {
    if (isnan(value) || wn_report_numbers_index(numbers, value) >= 0) {
        return;
    }
    const int place = place_of(numbers, value);
    void *array = numbers->value;
    if (!wn_report_make_room(report, &array, numbers->n, &numbers->room, sizeof *numbers->value)) {
        return;
    }
    numbers->value = array;
    memmove(numbers->value + place + 1, numbers->value + place,
            (size_t)(numbers->n - place) * sizeof *numbers->value);
    numbers->value[place] = value;
    numbers->n++;
}

double *wn_report_spread(struct wn_report *report, int a, int b, int c, struct wn_error *err) {
    const double n = (double)a * (double)b * (double)c;
    if (n > WN_REPORT_SPREAD_MAX) {
        wn_error_set(err, WN_E_FORMAT,
                     "the run has too many different cells for one report (report parts of it)");
        return NULL;
    }
    double *values = wn_report_alloc(report, (size_t)n, sizeof *values);
    if (values == NULL) {
        wn_report_check(report, err);
        return NULL;
    }
    for (size_t i = 0; i < (size_t)n; i++) {
        values[i] = NAN;
    }
    return values;
}
