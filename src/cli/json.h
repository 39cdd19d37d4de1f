/* SPDX-License-Identifier: MIT */
/* JSON output. Building stops at nothing: a value that could not be made marks the whole as failed,
 * which wn_json_print then says. */
#ifndef WN_CLI_JSON_H
#define WN_CLI_JSON_H

#include "cli/reading.h"
#include "winnow_core.h"

#include <jansson.h>
#include <stdio.h>

struct wn_json {
    bool failed;
};

/* Each puts a member into an object. `value` is taken over, also on failure. */
void wn_json_put(struct wn_json *json, json_t *object, const char *key, json_t *value);
void wn_json_put_integer(struct wn_json *json, json_t *object, const char *key, int64_t value);
/* null for what is not finite: JSON has no infinities and no NaN. */
void wn_json_put_number(struct wn_json *json, json_t *object, const char *key, double value);
/* n / seconds; null when nothing was measured. */
void wn_json_put_rate(struct wn_json *json, json_t *object, const char *key, int64_t n,
                      double seconds);
/* Any bytes; JSON strings are valid UTF-8. */
void wn_json_put_text(struct wn_json *json, json_t *object, const char *key, const char *text,
                      size_t n_bytes);
/* null for NULL. */
void wn_json_put_string(struct wn_json *json, json_t *object, const char *key, const char *text);

/* Members that describe a policy, and what a reading was made with. */
void wn_json_put_policy(struct wn_json *json, json_t *object, const struct wn_policy *policy);
void wn_json_put_engine(struct wn_json *json, json_t *object, const struct wn_engine_info *info);
json_t *wn_json_model(struct wn_json *json, const struct wn_reading *reading);
json_t *wn_json_document(struct wn_json *json, const struct wn_reading *reading);
json_t *wn_json_prompt(struct wn_json *json, const struct wn_reading *reading);

/* Prints root with a line break behind it, and frees it. WN_E_MEMORY, WN_E_IO. */
wn_status wn_json_print(struct wn_json *json, json_t *root, FILE *out, struct wn_error *err);

#endif
