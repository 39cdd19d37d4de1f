/* SPDX-License-Identifier: MIT */
#include "cli/speed_report.h"

#include "cli/format.h"
#include "eval/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

wn_status wn_speed_report_make(const struct wn_speed_plan *plan, const struct wn_results *results,
                               struct wn_speed_report *report, struct wn_error *err) {
    const int n_races = wn_speed_n_races(plan);
    *report = (struct wn_speed_report){.plan = plan};
    report->row = calloc((size_t)n_races * (size_t)plan->n_keeps, sizeof *report->row);
    if (report->row == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the report");
    }
    for (int i = 0; i < n_races; i++) {
        const struct wn_speed_race race = wn_speed_race_at(plan, i);
        for (int k = 0; k < plan->n_keeps; k++) {
            report->n_rows +=
                wn_speed_row_read(results, &race, plan->keep[k], &report->row[report->n_rows]);
        }
    }
    return WN_OK;
}

void wn_speed_report_free(struct wn_speed_report *report) {
    free(report->row);
    *report = (struct wn_speed_report){0};
}

/* ---- tables ---- */

enum { MAX_COLUMNS = 12, COLUMN_WIDTH = 10 };

/* A row under construction. */
struct line {
    char cell[MAX_COLUMNS][24];
    int n;
};

static void put(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct line *line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line->cell[line->n++], sizeof line->cell[0], format, arguments);
    va_end(arguments);
}

static void print_line(const struct line *line, bool markdown, FILE *out) {
    for (int i = 0; i < line->n; i++) {
        if (markdown) {
            fprintf(out, "%s %s", i > 0 ? " |" : "|", line->cell[i]);
        } else {
            fprintf(out, "%*s", i > 0 ? COLUMN_WIDTH : 8, line->cell[i]);
        }
    }
    fputs(markdown ? " |\n" : "\n", out);
}

static void print_heads(const char *const *heads, bool markdown, FILE *out) {
    struct line line = {.n = 0}, rule = {.n = 0};
    for (int i = 0; heads[i] != NULL; i++) {
        put(&line, "%s", heads[i]);
        put(&rule, "---:");
    }
    print_line(&line, markdown, out);
    if (markdown) {
        print_line(&rule, true, out);
    }
}

static void put_where(struct line *line, const struct wn_speed_row *row) {
    struct wn_text32 length;
    put(line, "%s", wn_format_count(row->race.length, &length));
    put(line, "%.4g %%", 100.0 * row->keep);
}

static void put_speeds(struct line *line, double speed, double spread, const double *peer,
                       double ratio) {
    put(line, "%.1f", speed);
    put(line, "%.0f %%", 100.0 * spread);
    for (int i = 0; i < WN_PEER_COUNT; i++) {
        if (isfinite(peer[i])) {
            put(line, "%.1f", peer[i]);
        } else {
            put(line, "-");
        }
    }
    put(line, "%.2f x", ratio);
}

static bool same_table(const struct wn_speed_row *a, const struct wn_speed_row *b) {
    return a->race.threads == b->race.threads && a->race.type == b->race.type;
}

static void print_reading(const struct wn_speed_row *rows, int n, bool markdown, FILE *out) {
    static const char *const heads[] = {"length", "keep", "winnow", "spread", "flash",
                                        "plain",  "q8_0", "ratio",  NULL};
    fprintf(out,
            "Reading, tokens per second, observing and compressing included; ratio to llama.cpp "
            "with flash attention.\n\n");
    print_heads(heads, markdown, out);
    for (int i = 0; i < n; i++) {
        struct line line = {.n = 0};
        put_where(&line, &rows[i]);
        put_speeds(&line, rows[i].prefill, rows[i].prefill_spread, rows[i].prefill_peer,
                   rows[i].prefill_ratio);
        print_line(&line, markdown, out);
    }
}

static void print_decoding(const struct wn_speed_row *rows, int n, bool markdown, FILE *out) {
    static const char *const heads[] = {"length", "keep",  "winnow", "spread", "flash",    "plain",
                                        "q8_0",   "ratio", "read",   "cache",  "resident", NULL};
    fprintf(out,
            "\nDecoding, tokens per second; ratio to the faster of flash and plain; read: weights "
            "and entries of a token as a share of the read bandwidth; cache: bytes of the entries; "
            "resident: what the process grew by.\n\n");
    print_heads(heads, markdown, out);
    for (int i = 0; i < n; i++) {
        struct line line = {.n = 0};
        struct wn_text32 cache, resident;
        put_where(&line, &rows[i]);
        put_speeds(&line, rows[i].decode, rows[i].decode_spread, rows[i].decode_peer,
                   rows[i].decode_ratio);
        put(&line, "%.0f %%", 100.0 * rows[i].read_share);
        put(&line, "%s", wn_format_bytes(rows[i].kv_bytes, &cache));
        put(&line, "%s", wn_format_bytes(rows[i].resident_bytes, &resident));
        print_line(&line, markdown, out);
    }
}

void wn_speed_report_print(const struct wn_speed_report *report, bool markdown, FILE *out) {
    for (int first = 0, last; first < report->n_rows; first = last) {
        const struct wn_speed_row *rows = &report->row[first];
        last = first;
        while (last < report->n_rows && same_table(&report->row[last], rows)) {
            last++;
        }
        fprintf(out, "%s%s%d thread%s, %s, read bandwidth %.1f GB/s\n\n", first > 0 ? "\n" : "",
                markdown ? "### " : "", rows->race.threads, rows->race.threads == 1 ? "" : "s",
                wn_type_name(rows->race.type), rows->bandwidth * 1e-9);
        print_reading(rows, last - first, markdown, out);
        print_decoding(rows, last - first, markdown, out);
    }
}

/* ---- JSON ---- */

static void put_peers(struct wn_json *json, json_t *object, const char *what, const double *peer) {
    for (int i = 0; i < WN_PEER_COUNT; i++) {
        char key[48];
        snprintf(key, sizeof key, "llama_%s_%s_tokens_per_second", wn_peer_name((enum wn_peer)i),
                 what);
        wn_json_put_number(json, object, key, peer[i]);
    }
}

static json_t *row_json(struct wn_json *json, const struct wn_speed_row *row) {
    json_t *object = json_object();
    wn_json_put_integer(json, object, "threads", row->race.threads);
    wn_json_put_string(json, object, "type", wn_type_name(row->race.type));
    wn_json_put_integer(json, object, "length", row->race.length);
    wn_json_put_number(json, object, "keep", row->keep);
    wn_json_put_number(json, object, "prefill_tokens_per_second", row->prefill);
    wn_json_put_number(json, object, "prefill_spread", row->prefill_spread);
    wn_json_put_number(json, object, "prefill_ratio", row->prefill_ratio);
    put_peers(json, object, "prefill", row->prefill_peer);
    wn_json_put_number(json, object, "decode_tokens_per_second", row->decode);
    wn_json_put_number(json, object, "decode_spread", row->decode_spread);
    wn_json_put_number(json, object, "decode_ratio", row->decode_ratio);
    put_peers(json, object, "decode", row->decode_peer);
    wn_json_put_number(json, object, "bandwidth_bytes_per_second", row->bandwidth);
    wn_json_put_number(json, object, "read_share", row->read_share);
    wn_json_put_integer(json, object, "kv_bytes", row->kv_bytes);
    wn_json_put_integer(json, object, "resident_bytes", row->resident_bytes);
    wn_json_put_integer(json, object, "entries", row->n_entries);
    return object;
}

wn_status wn_speed_report_print_json(const struct wn_speed_report *report,
                                     const struct wn_results *results, FILE *out,
                                     struct wn_error *err) {
    struct wn_json json = {0};
    json_t *root = wn_results_json(results), *rows = json_array();
    for (int i = 0; i < report->n_rows; i++) {
        wn_json_append(&json, rows, row_json(&json, &report->row[i]));
    }
    wn_json_put(&json, root, "rows", rows);
    return wn_json_print(&json, root, out, err);
}
