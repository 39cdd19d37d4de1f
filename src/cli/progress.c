/* SPDX-License-Identifier: MIT */
#include "cli/progress.h"

#include "cli/format.h"

#include <unistd.h>

enum { BAR_WIDTH = 20 };

/* Seconds: a step that ends at once shows no bar, a bar is redrawn ten times a second at most, and
 * plain lines are for steps longer than this. */
static const double bar_delay = 0.3;
static const double bar_interval = 0.1;
static const double lines_from = 5.0;

enum wn_progress_style wn_progress_style_of(FILE *out, bool quiet) {
    if (quiet) {
        return WN_PROGRESS_NONE;
    }
    return isatty(fileno(out)) ? WN_PROGRESS_BAR : WN_PROGRESS_LINES;
}

void wn_progress_begin(struct wn_progress *progress, FILE *out, enum wn_progress_style style,
                       const char *label, int64_t n_first, double now) {
    *progress = (struct wn_progress){.out = out,
                                     .style = style,
                                     .label = label,
                                     .unit = "tokens",
                                     .n_first = n_first,
                                     .started = now,
                                     .drawn = now};
}

static void draw_bar(struct wn_progress *progress, int64_t n_done, int64_t n_total, double left) {
    char bar[BAR_WIDTH + 1];
    int n_filled = (int)(BAR_WIDTH * ((double)n_done / (double)n_total));
    for (int i = 0; i < BAR_WIDTH; i++) {
        bar[i] = i < n_filled ? '#' : '.';
    }
    bar[BAR_WIDTH] = '\0';
    struct wn_text32 done, total, time;
    fprintf(progress->out, "\r%s [%s] %s of %s %s, %s left\033[K", progress->label, bar,
            wn_format_count(n_done, &done), wn_format_count(n_total, &total), progress->unit,
            wn_format_seconds(left, &time));
    fflush(progress->out);
    progress->visible = true;
}

static int quarters(int64_t n_done, int64_t n_total) {
    return (int)(4.0 * ((double)n_done / (double)n_total));
}

void wn_progress_update(struct wn_progress *progress, int64_t n_done, int64_t n_total, double now) {
    if (progress->style == WN_PROGRESS_NONE || n_done <= progress->n_first || n_done > n_total) {
        return;
    }
    double elapsed = now - progress->started;
    double left = elapsed * ((double)(n_total - n_done) / (double)(n_done - progress->n_first));
    if (progress->style == WN_PROGRESS_BAR) {
        if (elapsed >= bar_delay && now - progress->drawn >= bar_interval) {
            draw_bar(progress, n_done, n_total, left);
            progress->drawn = now;
        }
        return;
    }
    int n_quarters = quarters(n_done, n_total);
    if (n_quarters > progress->n_quarters && n_quarters > quarters(progress->n_first, n_total) &&
        n_quarters < 4 && elapsed + left > lines_from) {
        struct wn_text32 done, total, time;
        fprintf(progress->out, "winnow: %s: %s of %s %s, %s left\n", progress->label,
                wn_format_count(n_done, &done), wn_format_count(n_total, &total), progress->unit,
                wn_format_seconds(left, &time));
        progress->n_quarters = n_quarters;
    }
}

void wn_progress_end(struct wn_progress *progress) {
    if (progress->visible) {
        fputs("\r\033[K", progress->out);
        fflush(progress->out);
        progress->visible = false;
    }
}
