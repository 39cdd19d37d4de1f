/* SPDX-License-Identifier: MIT */
#include "winnow_core.h"

#include <math.h>

double wn_snis_log_weight(int64_t c, int64_t m, double pi, double tau) {
    if (isinf(tau)) {
        return 0.0;
    }
    return (log((double)c) - log((double)m) - log(pi)) / tau;
}
