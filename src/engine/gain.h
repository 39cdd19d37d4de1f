/* SPDX-License-Identifier: MIT */
/*
 * What a unit of attention output is worth to the model: one constant per layer l and query head g,
 *
 *     c_{l,g} = ||W_o,g||_F / rho_l^0.75
 *
 * W_o,g the columns of the layer's output projection that belong to the head, rho_l the root mean
 * square, over coordinates and tokens, of the residual stream that enters the layer. With it the
 * contributions of entries compare between all heads of a model. Nothing here depends on a text to
 * be compressed: a model is measured once.
 */
#ifndef WN_GAIN_H
#define WN_GAIN_H

#include "engine/graft.h"
#include "winnow.h"

/* Tokens at the start that rho leaves out: attention sinks stand there, whose activations can be
 * more than a hundred times those of other tokens. */
enum { WN_RESIDUAL_SKIP = 4 };

/*
 * gain[l] float [n_heads of layer l], from the model's file and one run of the first 32 tokens of a
 * built-in text through llama.cpp alone. *has_residual (may be NULL) tells whether the residual stream
 * was found in the graph; where it was not, rho is 1 for all layers. WN_E_MODEL: the file does not
 * hold an output projection as expected (a split model's first file holds a part of them);
 * WN_E_IO, WN_E_MEMORY, WN_E_BACKEND. On failure gains may be partly written.
 */
wn_status wn_gain_measure(struct wn_model *model, const struct wn_layer_geometry *geometry,
                          int n_layers, int n_threads, float **gain, bool *has_residual,
                          struct wn_error *err);

/* rho float [n_layers], measured on that text; all 1 when *found is false. */
wn_status wn_gain_measure_rho(struct wn_model *model, int n_layers, int n_threads, float *rho,
                              bool *found, struct wn_error *err);
/* The gains that follow from it. */
wn_status wn_gain_of_rho(const struct wn_model *model, const struct wn_layer_geometry *geometry,
                         int n_layers, const float *rho, float **gain, struct wn_error *err);

/* The two factors. norm[l][g] = ||W_o,g||_F, read row by row from a GGUF file. */
wn_status wn_output_norms(const char *path, const struct wn_layer_geometry *geometry, int n_layers,
                          float **norm, struct wn_error *err);
/* rho float [n_layers] of a text of n > n_skip tokens, without its first n_skip. When a layer's
 * input is not found, *found is false and all are 1. */
wn_status wn_residual_rms(struct wn_model *model, const int32_t *tokens, int n, int n_skip,
                          int n_layers, int n_threads, float *rho, bool *found,
                          struct wn_error *err);

#endif
