/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t raised;

static void note_signal(int signal_number) {
    (void)signal_number;
    raised = 1;
}

static void handle(void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

void wn_interrupt_catch(void) {
    /* A write that the signal interrupts goes on; a second signal meets the default action. */
    handle(note_signal, SA_RESTART | (int)SA_RESETHAND);
}

void wn_interrupt_release(void) {
    handle(SIG_DFL, 0);
}

void wn_interrupt_ignore(void) {
    handle(SIG_IGN, 0);
}

bool wn_interrupt_raised(void) {
    return raised != 0;
}

void wn_interrupt_forget(void) {
    raised = 0;
}
