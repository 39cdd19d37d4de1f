/* SPDX-License-Identifier: MIT */
#include "cli/calibrating.h"

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "core/clock.h"
#include "eval/calibration.h"

static bool on_progress(void *user, int64_t n_done, int64_t n_total) {
    wn_progress_update(user, n_done, n_total, wn_clock());
    return !wn_interrupt_raised();
}

wn_status wn_calibrating_ensure(struct wn_engine *engine, const struct wn_model *model,
                                const struct wn_reading_options *options, bool *measured,
                                struct wn_error *note, struct wn_error *err) {
    const char *path = options->calibration_path;
    struct wn_progress progress;
    const struct wn_calibrate_options calibrate = {.on_progress = on_progress, .user = &progress};
    *measured = false;
    *note = (struct wn_error){0};
    wn_interrupt_catch();
    wn_progress_begin(&progress, stderr, wn_progress_style_of(stderr, options->quiet),
                      "calibrating", 0, wn_clock());
    const wn_status status =
        wn_calibration_ensure(engine, model, options->model_path, path, &calibrate, measured, note);
    wn_progress_end(&progress);
    if (status == WN_OK) {
        return WN_OK;
    }
    return path != NULL
               ? wn_error_set(err, status, "%s", note->message)
               : wn_error_set(err, status, "cannot calibrate the model (%s)", note->message);
}
