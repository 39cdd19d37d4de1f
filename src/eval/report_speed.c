/* SPDX-License-Identifier: MIT */
/* Speed and memory beside llama.cpp, from the rows that `winnow bench speed` prints too. */
#include "eval/report_make.h"

#include "eval/speed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct speed {
    struct wn_report *report;
    struct wn_report_section *section;
    struct wn_speed_row *row; /* [n_rows] by way (threads and type), length and share */
    int n_rows;
};

/* ---- reading ---- */

static bool type_of(const char *name, int *type) {
    for (int i = 0; i < WN_TYPE_COUNT; i++) {
        if (strcmp(wn_type_name(i), name) == 0) {
            *type = i;
            return true;
        }
    }
    return false;
}

/* The results in memory again, for those who read rows from them. */
static wn_status open_results(const json_t *run, struct wn_results **results,
                              struct wn_error *err) {
    json_t *none = json_object();
    const struct wn_results_header header = {
        .benchmark = "speed", .model_description = "", .settings = none};
    wn_status status = wn_results_open(NULL, &header, results, err);
    json_decref(none);
    for (size_t i = 0; status == WN_OK && i < wn_report_n_cells(run); i++) {
        const struct wn_report_reader reader = wn_report_cell_at(run, i);
        status = wn_results_add(*results, reader.cell, json_incref((json_t *)reader.values), err);
    }
    return status;
}

/* Cells of decoding have a share; those of reading are part of their rows. */
static wn_status read_row(struct speed *s, const struct wn_results *results,
                          struct wn_report_reader *reader, struct wn_error *err) {
    const double keep = wn_report_read_optional(reader, "keep");
    const double threads = wn_report_read_within(reader, "threads", 1, 1e6);
    const double length = wn_report_read_within(reader, "length", 1, 1e12);
    struct wn_speed_race race = {.threads = (int)threads, .length = (int64_t)length};
    if (!type_of(wn_report_read_word(reader, "type"), &race.type) && reader->lacks == NULL) {
        reader->lacks = "type";
    }
    if (reader->lacks == NULL && !isnan(keep)) {
        s->n_rows += wn_speed_row_read(results, &race, keep, &s->row[s->n_rows]);
    }
    return wn_report_read_end(reader, err);
}

static int compare_rows(const void *left, const void *right) {
    const struct wn_speed_row *a = left, *b = right;
    if (a->race.threads != b->race.threads) {
        return a->race.threads < b->race.threads ? 1 : -1;
    }
    if (a->race.type != b->race.type) {
        return a->race.type < b->race.type ? -1 : 1;
    }
    if (a->race.length != b->race.length) {
        return a->race.length < b->race.length ? -1 : 1;
    }
    return (a->keep < b->keep) - (a->keep > b->keep);
}

static wn_status read_rows(struct speed *s, const json_t *run, struct wn_error *err) {
    struct wn_results *results = NULL;
    wn_status status = open_results(run, &results, err);
    s->row = wn_report_alloc(s->report, wn_report_n_cells(run), sizeof *s->row);
    status = status == WN_OK ? wn_report_check(s->report, err) : status;
    for (size_t i = 0; status == WN_OK && i < wn_report_n_cells(run); i++) {
        struct wn_report_reader reader = wn_report_cell_at(run, i);
        status = read_row(s, results, &reader, err);
    }
    wn_results_close(results);
    if (status == WN_OK) {
        qsort(s->row, (size_t)s->n_rows, sizeof *s->row, compare_rows);
    }
    return status;
}

/* ---- tables ---- */

static void begin_columns(struct wn_report_table *table) {
    wn_report_column(table, "threads", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    wn_report_column(table, "type", WN_REPORT_WORDS, WN_REPORT_NO_BEST);
    wn_report_column(table, "length", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    wn_report_column(table, "keep", WN_REPORT_KEEP, WN_REPORT_NO_BEST);
    wn_report_column(table, "winnow", WN_REPORT_SCORE, WN_REPORT_NO_BEST);
    wn_report_column(table, "spread", WN_REPORT_SHARE, WN_REPORT_NO_BEST);
    for (int i = 0; i < WN_PEER_COUNT; i++) {
        wn_report_column(table, wn_peer_name((enum wn_peer)i), WN_REPORT_SCORE, WN_REPORT_NO_BEST);
    }
    wn_report_column(table, "ratio", WN_REPORT_FIGURE, WN_REPORT_NO_BEST);
}

static void put_speeds(struct wn_report_table *table, const struct wn_speed_row *row, double speed,
                       double spread, const double *peer, double ratio) {
    wn_report_row(table, -1);
    wn_report_number(table, row->race.threads);
    wn_report_words(table, "%s", wn_type_name(row->race.type));
    wn_report_number(table, (double)row->race.length);
    wn_report_number(table, row->keep);
    wn_report_number(table, speed);
    wn_report_number(table, spread);
    for (int i = 0; i < WN_PEER_COUNT; i++) {
        wn_report_number(table, peer[i]);
    }
    wn_report_number(table, ratio);
}

static void put_reading(const struct speed *s) {
    struct wn_report_table *table =
        wn_report_begin_table(s->section, "reading", "Reading, tokens per second");
    begin_columns(table);
    for (int i = 0; i < s->n_rows; i++) {
        const struct wn_speed_row *row = &s->row[i];
        put_speeds(table, row, row->prefill, row->prefill_spread, row->prefill_peer,
                   row->prefill_ratio);
    }
    wn_report_note(table,
                   "Medians of the rounds, observing and compressing included. flash, plain, "
                   "q8_0: llama.cpp with flash attention, without, and with a cache of q8_0; "
                   "the ratio is to flash.");
    wn_report_end_table(table);
}

static void put_decoding(const struct speed *s) {
    struct wn_report_table *table =
        wn_report_begin_table(s->section, "decoding", "Decoding, tokens per second");
    begin_columns(table);
    wn_report_column(table, "read", WN_REPORT_SHARE, WN_REPORT_NO_BEST);
    wn_report_column(table, "cache", WN_REPORT_BYTES, WN_REPORT_NO_BEST);
    wn_report_column(table, "resident", WN_REPORT_BYTES, WN_REPORT_NO_BEST);
    for (int i = 0; i < s->n_rows; i++) {
        const struct wn_speed_row *row = &s->row[i];
        put_speeds(table, row, row->decode, row->decode_spread, row->decode_peer,
                   row->decode_ratio);
        wn_report_number(table, row->read_share);
        wn_report_number(table, (double)row->kv_bytes);
        wn_report_number(table, (double)row->resident_bytes);
    }
    wn_report_note(table,
                   "The ratio is to the faster of flash and plain. read: bytes of the weights "
                   "and entries of a token, as a share of the read bandwidth; cache: bytes of "
                   "the entries; resident: what the process grew by.");
    wn_report_end_table(table);
}

/* ---- figures ---- */

/* Whether two rows are of the same threads and type. */
static bool same_way(const struct wn_speed_row *a, const struct wn_speed_row *b) {
    return a->race.threads == b->race.threads && a->race.type == b->race.type;
}

/* Lines of llama.cpp's ways first, then of our shares, over the length. */
static void put_over_length(const struct speed *s, const struct wn_speed_row *rows, int n,
                            bool decodes) {
    struct wn_report_numbers lengths = {0}, keeps = {0};
    for (int i = 0; i < n; i++) {
        wn_report_numbers_add(s->report, &lengths, (double)rows[i].race.length);
        wn_report_numbers_add(s->report, &keeps, rows[i].keep);
    }
    const char *way = wn_report_text(s->report, "%d threads, %s", rows->race.threads,
                                     wn_type_name(rows->race.type));
    struct wn_report_figure *figure = wn_report_begin_figure(
        s->section, WN_REPORT_LINES,
        wn_report_text(s->report, "%s-%d-%s", decodes ? "decoding" : "reading", rows->race.threads,
                       wn_type_name(rows->race.type)),
        wn_report_text(s->report, "%s: %s", decodes ? "Decoding" : "Reading", way),
        WN_PEER_COUNT + keeps.n, lengths.n);
    if (figure == NULL) {
        return;
    }
    figure->x_doubles = true;
    figure->x_label = "tokens of text";
    figure->y_label = "tokens per second";
    figure->caption = decodes
                          ? "Speed of decoding behind texts of several lengths; higher is better."
                          : "Speed of reading, observing and compressing included; higher is "
                            "better.";
    for (int p = 0; p < lengths.n; p++) {
        figure->x[p] = lengths.value[p];
    }
    for (int i = 0; i < WN_PEER_COUNT; i++) {
        figure->line[i] = wn_report_text(s->report, "llama.cpp %s", wn_peer_name((enum wn_peer)i));
    }
    for (int i = 0; i < n; i++) {
        const int point = wn_report_numbers_index(&lengths, (double)rows[i].race.length);
        const int line = WN_PEER_COUNT + wn_report_numbers_index(&keeps, rows[i].keep);
        const double *peer = decodes ? rows[i].decode_peer : rows[i].prefill_peer;
        char share[WN_REPORT_NUMBER_BYTES];
        figure->line[line] = wn_report_text(s->report, "winnow, %s",
                                            wn_report_format(WN_REPORT_KEEP, rows[i].keep, share));
        wn_report_put_point(figure, line, point, decodes ? rows[i].decode : rows[i].prefill);
        for (int k = 0; k < WN_PEER_COUNT; k++) {
            wn_report_put_point(figure, k, point, peer[k]);
        }
    }
}

/* Speed of decoding over the bytes of the entries, a line for each length. */
static void put_over_memory(const struct speed *s, const struct wn_speed_row *rows, int n) {
    struct wn_report_numbers lengths = {0}, sizes = {0};
    for (int i = 0; i < n; i++) {
        wn_report_numbers_add(s->report, &lengths, (double)rows[i].race.length);
        wn_report_numbers_add(s->report, &sizes, (double)rows[i].kv_bytes);
    }
    struct wn_report_figure *figure =
        wn_report_begin_figure(s->section, WN_REPORT_LINES,
                               wn_report_text(s->report, "memory-%d-%s", rows->race.threads,
                                              wn_type_name(rows->race.type)),
                               wn_report_text(s->report, "Decoding and memory: %d threads, %s",
                                              rows->race.threads, wn_type_name(rows->race.type)),
                               lengths.n, sizes.n);
    if (figure == NULL) {
        return;
    }
    figure->x_label = "cache, MiB";
    figure->y_label = "tokens per second";
    figure->caption =
        "Speed of decoding over the bytes of the entries; up and to the left is better.";
    for (int p = 0; p < sizes.n; p++) {
        figure->x[p] = sizes.value[p] / 1048576;
    }
    for (int i = 0; i < n; i++) {
        const int line = wn_report_numbers_index(&lengths, (double)rows[i].race.length);
        figure->line[line] =
            wn_report_text(s->report, "%lld tokens", (long long)rows[i].race.length);
        wn_report_put_point(figure, line, wn_report_numbers_index(&sizes, (double)rows[i].kv_bytes),
                            rows[i].decode);
    }
}

/* ---- the whole ---- */

static void find_gain(const struct speed *s) {
    const struct wn_speed_row *best = NULL;
    for (int i = 0; i < s->n_rows; i++) {
        if (isfinite(s->row[i].decode_ratio) &&
            (best == NULL || s->row[i].decode_ratio > best->decode_ratio)) {
            best = &s->row[i];
        }
    }
    if (best != NULL) {
        char share[WN_REPORT_NUMBER_BYTES];
        wn_report_find(
            s->section,
            "Behind %lld tokens, keeping %s, decoding is %.2f times as fast as llama.cpp's "
            "faster way, the largest ratio measured here.",
            (long long)best->race.length, wn_report_format(WN_REPORT_KEEP, best->keep, share),
            best->decode_ratio);
    }
}

wn_status wn_report_make_speed(struct wn_report_section *section, const json_t *run,
                               struct wn_error *err) {
    struct speed s = {.report = section->report, .section = section};
    const wn_status status = read_rows(&s, run, err);
    if (status != WN_OK || s.n_rows == 0) {
        return status;
    }
    find_gain(&s);
    put_reading(&s);
    put_decoding(&s);
    for (int first = 0, last; first < s.n_rows; first = last) {
        last = first;
        while (last < s.n_rows && same_way(&s.row[first], &s.row[last])) {
            last++;
        }
        put_over_length(&s, &s.row[first], last - first, false);
        put_over_length(&s, &s.row[first], last - first, true);
        put_over_memory(&s, &s.row[first], last - first);
    }
    return wn_report_check(section->report, err);
}
