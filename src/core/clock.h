/* SPDX-License-Identifier: MIT */
#ifndef WN_CLOCK_H
#define WN_CLOCK_H

/* Seconds from a clock that never goes back. */
double wn_clock(void);

#endif
