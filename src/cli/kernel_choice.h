/* SPDX-License-Identifier: MIT */
/* Which attention kernels the environment asks for. */
#ifndef WN_CLI_KERNEL_CHOICE_H
#define WN_CLI_KERNEL_CHOICE_H

#include "winnow_core.h"

/* The end of each subcommand's help. */
#define WN_KERNEL_CHOICE_HELP                                                                   \
    "The environment's WINNOW_CPU (auto, avx512, avx2, neon, reference) chooses the attention " \
    "kernels, which otherwise are the fastest that the machine has."

/*
 * The name in WINNOW_CPU, or "auto" where it is not set or empty; the string lives as long as the
 * program. WN_E_ARG, with those to choose from, when there are no kernels of that name or this
 * machine cannot run them.
 */
wn_status wn_kernel_choice(const char **kernels, struct wn_error *err);

#endif
