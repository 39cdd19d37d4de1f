/* SPDX-License-Identifier: MIT */
#include "eval/speed_plan.h"

#include <stdio.h>

int wn_speed_n_races(const struct wn_speed_plan *plan) {
    return plan->n_threads * plan->n_types * plan->n_lengths;
}

struct wn_speed_race wn_speed_race_at(const struct wn_speed_plan *plan, int i) {
    const int n_inner = plan->n_types * plan->n_lengths;
    return (struct wn_speed_race){
        .threads = plan->threads[i / n_inner],
        .type = plan->type[i % n_inner / plan->n_lengths],
        .length = plan->length[i % plan->n_lengths],
    };
}

const char *wn_speed_cell_name(const struct wn_speed_race *race, double keep,
                               struct wn_speed_cell *cell) {
    const char *type = wn_type_name(race->type);
    const int n =
        snprintf(cell->name, sizeof cell->name, "%s threads=%d type=%s length=%lld",
                 keep > 0 ? "decode" : "prefill", race->threads, type, (long long)race->length);
    if (keep > 0) {
        snprintf(cell->name + n, sizeof cell->name - (size_t)n, " keep=%.6g%%", 100.0 * keep);
    }
    return cell->name;
}
