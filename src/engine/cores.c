/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* sched_getaffinity */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/cores.h"

/* Cores that the control group's quota amounts to, or INT_MAX: a container may be limited so. */
static int quota_cores(void) {
    long quota, period;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (file == NULL)
        return INT_MAX;
    const int n_read = fscanf(file, "%ld %ld", &quota, &period);
    fclose(file);
    if (n_read != 2 || quota < 1 || period < 1 || quota / period >= INT_MAX)
        return INT_MAX;
    return (int)((quota + period - 1) / period);
}

static int allowed_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

int wn_available_cores(void) {
    const int allowed = allowed_cores(), quota = quota_cores();
    return allowed < quota ? allowed : quota;
}
