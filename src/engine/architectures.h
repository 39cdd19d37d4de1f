/* SPDX-License-Identifier: MIT */
/* What is known of architectures by their names (general.architecture of a model file), where the
 * file itself does not say it. */
#ifndef WN_ARCHITECTURES_H
#define WN_ARCHITECTURES_H

#include <stdbool.h>

/* Why models of an architecture that llama.cpp knows cannot be served, as a part of a sentence; NULL:
 * nothing is known against it. */
const char *wn_architecture_refusal(const char *architecture);

extern const char wn_refusal_encoder[], wn_refusal_recurrent[], wn_refusal_hybrid[],
    wn_refusal_diffusion[];

/* llama.cpp stops the process for a model of this architecture where RoPE leaves out some of a
 * head's dimensions. */
bool wn_architecture_rotates_all(const char *architecture);
/* Whether keys and values of a head may differ in their dimensions; llama.cpp stops the process
 * where they do in models of another. */
bool wn_architecture_splits_heads(const char *architecture);

/* Whether llama.cpp stops the process for experts of this architecture without a gating function. */
bool wn_architecture_needs_gating(const char *architecture);

#endif
