/* SPDX-License-Identifier: MIT */
#ifndef WN_CORES_H
#define WN_CORES_H

/* Cores that this process may use, by its affinity and its control group's quota; at least 1. */
int wn_available_cores(void);

#endif
