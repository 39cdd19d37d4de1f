/* SPDX-License-Identifier: MIT */
#include "cli/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

int64_t wn_resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL) {
        return -1;
    }
    int64_t n_total = 0;
    int64_t n_resident = 0;
    int n_read = fscanf(file, "%" SCNd64 " %" SCNd64, &n_total, &n_resident);
    fclose(file);
    long page_bytes = sysconf(_SC_PAGESIZE);
    return n_read == 2 && page_bytes > 0 ? n_resident * page_bytes : -1;
}
