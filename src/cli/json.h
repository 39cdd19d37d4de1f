/* SPDX-License-Identifier: MIT */
/* JSON output. Building stops at nothing: a value that could not be made marks the whole as failed,
 * which wn_json_print then says. */
#ifndef WN_CLI_JSON_H
#define WN_CLI_JSON_H

#include "cli/answer.h"
#include "cli/reading.h"
#include "cli/standing.h"
#include "winnow_core.h"

#include <jansson.h>
#include <stdio.h>

struct wn_json {
    bool failed;
};

/* Each puts a member into an object, or appends to an array. `value` is taken over, also on failure.
 */
void wn_json_put(struct wn_json *json, json_t *object, const char *key, json_t *value);
void wn_json_append(struct wn_json *json, json_t *array, json_t *value);
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

/* Members that describe a policy, and what a reading was made with. */
void wn_json_put_policy(struct wn_json *json, json_t *object, const struct wn_policy *policy);
/* Those of a reading's, which may keep what an error allows. */
void wn_json_put_reading_policy(struct wn_json *json, json_t *object,
                                const struct wn_reading *reading);
void wn_json_put_engine(struct wn_json *json, json_t *object, const struct wn_engine_info *info);
json_t *wn_json_model(struct wn_json *json, const struct wn_reading *reading);
/* "document", null without one; and "documents", one by one, where there are several: the first is
 * then the text that they make together, and has no path. */
void wn_json_put_documents(struct wn_json *json, json_t *object,
                           const struct wn_documents *documents);
json_t *wn_json_prompt(struct wn_json *json, const struct wn_reading *reading);

/* null without budgets that were fitted. */
json_t *wn_json_fitted(struct wn_json *json, const struct wn_reading *reading);
/* null without a budget. */
json_t *wn_json_standing(struct wn_json *json, const struct wn_standing *standing);
json_t *wn_json_compression(struct wn_json *json, const struct wn_compress_report *report);
/* Members that describe answers: what they are made with, the seed apart, and what one came to. */
void wn_json_put_sampling(struct wn_json *json, json_t *object,
                          const struct wn_answer_options *options);
void wn_json_put_answer(struct wn_json *json, json_t *object, const struct wn_answer *answer);

/* root as a text on one line, to be freed; frees root. WN_E_MEMORY. */
wn_status wn_json_text(struct wn_json *json, json_t *root, char **out, struct wn_error *err);
/* Prints root with a line break behind it, and frees it. WN_E_MEMORY, WN_E_IO. */
wn_status wn_json_print(struct wn_json *json, json_t *root, FILE *out, struct wn_error *err);

#endif
