/* SPDX-License-Identifier: MIT */
/* How far models lie from llama.cpp as it is, with every entry kept. */
#ifndef WN_EVAL_NATIVE_DISTANCE_H
#define WN_EVAL_NATIVE_DISTANCE_H

#include "eval/targets.h"

enum { WN_DISTANCE_TEXTS = 2, WN_DISTANCE_PREFIX = 2000, WN_DISTANCE_SCORED = 256 };

/*
 * Mean KL divergence of llama.cpp without flash attention from its flash attention (*native, the noise
 * of its own), and from each engine (engine_kl [n_engines]), in nat, over tokens PREFIX to PREFIX +
 * SCORED of the first TEXTS texts of our own. WN_E_ARG when one is shorter.
 */
wn_status wn_native_distance(struct wn_targets *targets, const char *what,
                             struct wn_engine *const *engines, int n_engines, double *native,
                             double *engine_kl, struct wn_error *err);

#endif
