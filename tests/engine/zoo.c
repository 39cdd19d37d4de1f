/* SPDX-License-Identifier: MIT */
#include "zoo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

const char *zoo_path(const char *name) {
    static char path[4096];
    const char *folder = getenv("WINNOW_ZOO");
    if (folder == NULL)
        skip();
    snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
    if (access(path, R_OK) != 0)
        skip();
    return path;
}

struct wn_model *zoo_model(const char *name) {
    struct wn_model *model = NULL;
    struct wn_error err = {0};
    if (wn_model_open(zoo_path(name), &model, &err) != WN_OK)
        fail_msg("%s: %s", name, err.message);
    return model;
}

struct wn_engine *zoo_engine(struct wn_model *model, int n_batch) {
    struct wn_engine *engine = NULL;
    struct wn_error err = {0};
    struct wn_engine_options options;
    wn_engine_options_default(&options);
    options.n_ctx = ZOO_N_CTX;
    options.n_batch = n_batch;
    options.n_threads = 1;
    if (wn_engine_create(model, &options, &engine, &err) != WN_OK)
        fail_msg("%s: %s", model->architecture, err.message);
    return engine;
}

void zoo_tokens(const struct wn_model *model, int32_t *tokens, int n) {
    struct wn_rng rng;
    wn_rng_seed(&rng, 5, 0, 0, 0);
    for (int i = 0; i < n; i++)
        tokens[i] = (int32_t)(wn_rng_next(&rng) % (uint64_t)model->n_vocab);
}

struct wn_session *zoo_session(struct wn_engine *engine) {
    struct wn_session *session = NULL;
    assert_int_equal(wn_session_create(engine, &session, NULL), WN_OK);
    return session;
}

double zoo_difference(const float *a, const float *b, int n) {
    double mean = 0.0, spread = 0.0, apart = 0.0;
    for (int i = 0; i < n; i++)
        mean += (double)b[i] / n;
    for (int i = 0; i < n; i++) {
        spread += (b[i] - mean) * (b[i] - mean);
        apart += (double)(a[i] - b[i]) * (double)(a[i] - b[i]);
    }
    return sqrt(apart / spread);
}
