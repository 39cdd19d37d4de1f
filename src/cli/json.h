/* SPDX-License-Identifier: MIT */
/* What the reports of the program have in common as JSON; eval/json.h builds and prints it. */
#ifndef WN_CLI_JSON_H
#define WN_CLI_JSON_H

#include "cli/answer.h"
#include "cli/reading.h"
#include "cli/standing.h"
#include "eval/json.h"

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

#endif
