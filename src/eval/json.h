/* SPDX-License-Identifier: MIT */
/* JSON output. Building stops at nothing: a value that could not be made marks the whole as failed,
 * which wn_json_print then says. */
#ifndef WN_EVAL_JSON_H
#define WN_EVAL_JSON_H

#include "winnow_core.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct wn_json {
    bool failed;
};

/* Each puts a member into an object, or appends to an array. `value` is taken over, also on failure.
 */
void wn_json_put(struct wn_json *json, json_t *object, const char *key, json_t *value);
void wn_json_append(struct wn_json *json, json_t *array, json_t *value);
/* null for what is not finite. */
void wn_json_append_number(struct wn_json *json, json_t *array, double value);
void wn_json_put_integer(struct wn_json *json, json_t *object, const char *key, int64_t value);
/* null for what is not finite: JSON has no infinities and no NaN. */
void wn_json_put_number(struct wn_json *json, json_t *object, const char *key, double value);
/* null for what is negative: not measured. */
void wn_json_put_measured(struct wn_json *json, json_t *object, const char *key, int64_t value);
/* n / seconds; null when nothing was measured. */
void wn_json_put_rate(struct wn_json *json, json_t *object, const char *key, int64_t n,
                      double seconds);
/* Any bytes; JSON strings are valid UTF-8. */
void wn_json_put_text(struct wn_json *json, json_t *object, const char *key, const char *text,
                      size_t n_bytes);
/* null for NULL. */
void wn_json_put_string(struct wn_json *json, json_t *object, const char *key, const char *text);

/* root, or NULL, and it is freed, when something of it could not be made. */
json_t *wn_json_finish(const struct wn_json *json, json_t *root);
/* root as a text on one line, to be freed; frees root. WN_E_MEMORY. */
wn_status wn_json_text(struct wn_json *json, json_t *root, char **out, struct wn_error *err);
/* Prints root with a line break behind it, and frees it. WN_E_MEMORY, WN_E_IO. */
wn_status wn_json_print(struct wn_json *json, json_t *root, FILE *out, struct wn_error *err);

#endif
