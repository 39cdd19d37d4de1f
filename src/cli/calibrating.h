/* SPDX-License-Identifier: MIT */
/* Static budgets need what a calibration measured: looked up, or measured now. */
#ifndef WN_CLI_CALIBRATING_H
#define WN_CLI_CALIBRATING_H

#include "cli/reading_options.h"
#include "winnow.h"

/*
 * Gives the engine a calibration, the one that the options name or the model's own. Where there is none
 * the model is calibrated, with progress, and *measured is set. From then on Ctrl-C is caught
 * (interrupt.h). note->message is empty or for people: what was passed over, or why nothing could be
 * stored. Statuses of wn_calibration_ensure.
 */
wn_status wn_calibrating_ensure(struct wn_engine *engine, const struct wn_model *model,
                                const struct wn_reading_options *options, bool *measured,
                                struct wn_error *note, struct wn_error *err);

#endif
