/* SPDX-License-Identifier: MIT */
/*
 * A model's calibration as a file, and the places where it is looked for: the path that was named,
 * MODEL.calibration.json beside the model, NAME-FINGERPRINT.json in the user's cache folder,
 * ${XDG_CACHE_HOME:-~/.cache}/winnow.
 *
 * The file is JSON: {"format", "version", "model": {"fingerprint", ...}, "texts", "tokens", "keep":
 * [...], "layers": [{"rho", "gain": [query heads], "share": [[one for each of keep] KV heads]}]}.
 */
#ifndef WN_EVAL_CALIBRATION_H
#define WN_EVAL_CALIBRATION_H

#include "winnow.h"

/* Longest path that is looked at, its terminator included. */
enum { WN_CALIBRATION_PATH_MAX = 4096 };
/* Tokens of a text that are used. */
enum { WN_CALIBRATION_MAX_TOKENS = 2048 };

/* ---- texts ---- */

/* Texts that are part of the program. */
struct wn_builtin_text {
    const char *name;
    const char *bytes; /* not terminated */
    size_t n_bytes;
};
extern const struct wn_builtin_text wn_builtin_texts[];
extern const int wn_n_builtin_texts;

/*
 * A text as wn_calibrate wants it: a document of the model's chat template, cut to
 * WN_CALIBRATION_MAX_TOKENS and to what leaves room for a rehearsal. `name` is for messages.
 * WN_E_CONTEXT when there are fewer than WN_CALIBRATION_MIN_TOKENS, of the text or of the model's
 * context. Free with wn_tokens_free.
 */
wn_status wn_calibration_tokenize(const struct wn_model *model, const char *name, const char *text,
                                  size_t n_bytes, struct wn_tokens *out, struct wn_error *err);

/* ---- files ---- */

/*
 * Writes a calibration, whole or not at all: to a new file in the same folder, which then takes the
 * path's place. description: of the model, for readers; may be NULL. WN_E_ARG as
 * wn_calibration_check, WN_E_IO, WN_E_MEMORY.
 */
wn_status wn_calibration_write(const char *path, const struct wn_calibration *calibration,
                               uint64_t fingerprint, const char *description, struct wn_error *err);
/*
 * Reads one. WN_E_IO: no file that can be read; WN_E_FORMAT: not a calibration, of another version,
 * of a model with another fingerprint, or with numbers out of range; WN_E_MEMORY.
 */
wn_status wn_calibration_read(const char *path, uint64_t fingerprint, struct wn_calibration *out,
                              struct wn_error *err);

/* Where a calibration is stored that no path was named for: beside the model if its folder can be
 * written to, else in the cache folder, which is made. path [WN_CALIBRATION_PATH_MAX] out. WN_E_IO. */
wn_status wn_calibration_place(const char *model_path, uint64_t fingerprint, char *path,
                               struct wn_error *err);

/* ---- for an engine ---- */

/*
 * Looks a calibration up and gives it to the engine; *found tells whether there was one. `path` is
 * the one that was named, or NULL. A file that was named must be usable (statuses as
 * wn_calibration_read). One that was not is passed over when it is not: the status is WN_OK, and
 * err->message (if err is not NULL) says why, otherwise it is empty.
 */
wn_status wn_calibration_load_for(struct wn_engine *engine, const char *model_path,
                                  const char *path, bool *found, struct wn_error *err);
/*
 * The same, and where there is none the model is calibrated with the built-in texts and the result
 * stored; *measured tells that. On WN_OK err->message is empty or says what was passed over, or why
 * nothing could be stored. Statuses of wn_calibrate besides.
 */
wn_status wn_calibration_ensure(struct wn_engine *engine, const struct wn_model *model,
                                const char *model_path, const char *path,
                                const struct wn_calibrate_options *options, bool *measured,
                                struct wn_error *err);

#endif
