/* SPDX-License-Identifier: MIT */
/* The tiny models that tests/zoo/make_zoo.py makes, in the folder that WINNOW_ZOO names. */
#ifndef WN_TEST_ENGINE_ZOO_H
#define WN_TEST_ENGINE_ZOO_H

#include "engine/engine.h"

enum { ZOO_N_CTX = 512 };

/* The model's file; skips the test where there is none. Valid until the next call. */
const char *zoo_path(const char *name);
/* These assert that they succeed. Engines have one thread and ZOO_N_CTX tokens. */
struct wn_model *zoo_model(const char *name);
struct wn_engine *zoo_engine(struct wn_model *model, int n_batch);
struct wn_session *zoo_session(struct wn_engine *engine);
/* Tokens spread over the vocabulary, the same in each run. */
void zoo_tokens(const struct wn_model *model, int32_t *tokens, int n);
/* Distance of two rows of logits, relative to the deviation of b from its mean. */
double zoo_difference(const float *a, const float *b, int n);

#endif
