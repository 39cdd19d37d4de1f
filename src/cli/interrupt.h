/* SPDX-License-Identifier: MIT */
#ifndef WN_CLI_INTERRUPT_H
#define WN_CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on the first SIGINT (Ctrl-C) only raises a flag; the next ends the process. */
void wn_interrupt_catch(void);
/* Gives SIGINT its default action back. */
void wn_interrupt_release(void);
bool wn_interrupt_raised(void);

#endif
