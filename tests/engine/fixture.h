/* SPDX-License-Identifier: MIT */
/* What the engine tests share: the model named by WINNOW_MODEL, and a text tokenised. */
#ifndef WN_TEST_ENGINE_FIXTURE_H
#define WN_TEST_ENGINE_FIXTURE_H

#include "winnow.h"

struct fixture {
    struct wn_model *model;
    struct wn_engine *engine;
    struct wn_tokens text; /* at least 1,500 tokens */
    int n_vocab;
};

/* Group set-up and tear-down for cmocka; the state is a struct fixture *. Without WINNOW_MODEL
 * the set-up fails. */
int fixture_open(void **state);
/* The zoo's model with as many layers and heads as the default one, for tests of mechanics; without
 * a zoo as fixture_open. */
int fixture_open_tiny(void **state);
int fixture_close(void **state);

/* An engine on the fixture's model; asserts that it can be made. */
struct wn_engine *fixture_engine(const struct fixture *fixture, int n_threads, const char *kernels);
/* A session that holds text[0 .. n), fed in one call; policy (may be NULL) is announced. */
struct wn_session *fixture_session(struct wn_engine *engine, const struct fixture *fixture,
                                   int64_t n, const struct wn_policy *policy);
void fixture_feed(struct wn_session *session, const int32_t *tokens, int64_t n);
/* KL between the last logits of two sessions, nat. */
double fixture_kl(const struct fixture *fixture, const struct wn_session *a,
                  const struct wn_session *b);
/* Feeds text[from .. from + n) to both, and returns the mean of it after each token. */
double fixture_kl_along(const struct fixture *fixture, struct wn_session *a, struct wn_session *b,
                        int64_t from, int64_t n);

#endif
