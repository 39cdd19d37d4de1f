/* SPDX-License-Identifier: MIT */
#ifndef WN_CLI_MEMORY_H
#define WN_CLI_MEMORY_H

#include <stdint.h>

/* Bytes of this process that lie in physical memory now, mapped files such as the weights included;
 * -1 where the system does not tell. */
int64_t wn_resident_bytes(void);

#endif
