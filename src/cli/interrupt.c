/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t raised;

static void note_signal(int signal_number) {
    (void)signal_number;
    raised = 1;
}

void wn_interrupt_catch(void) {
    /* A write that the signal interrupts goes on; a second signal meets the default action. */
    struct sigaction action = {.sa_handler = note_signal,
                               .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

void wn_interrupt_release(void) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

bool wn_interrupt_raised(void) {
    return raised != 0;
}
