/* SPDX-License-Identifier: MIT */
#ifndef WN_CLI_INTERRUPT_H
#define WN_CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on the first SIGINT (Ctrl-C) only raises a flag; the next ends the process. */
void wn_interrupt_catch(void);
/* Gives SIGINT its default action back. */
void wn_interrupt_release(void);
/* SIGINT does nothing, for a step that must not be left halfway. */
void wn_interrupt_ignore(void);
bool wn_interrupt_raised(void);
/* Takes the flag back: what it stopped has ended, and the program goes on. */
void wn_interrupt_forget(void);

#endif
