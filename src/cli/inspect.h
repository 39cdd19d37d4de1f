/* SPDX-License-Identifier: MIT */
/* One execution of `winnow inspect`. */
#ifndef WN_CLI_INSPECT_H
#define WN_CLI_INSPECT_H

#include "cli/inspect_options.h"
#include "cli/reading.h"
#include "winnow.h"

struct wn_inspect {
    const struct wn_inspect_options *options;
    struct wn_reading reading;
    struct wn_session *session;
    int n_queries; /* --queries, or all that the prompt has */
    struct wn_inspection inspection;
};

/* Everything as one JSON object. WN_E_MEMORY, WN_E_IO. */
wn_status wn_inspect_print_json(const struct wn_inspect *inspect, FILE *out, struct wn_error *err);

/* Shows the cache file that the options name. WN_E_IO, WN_E_FORMAT, WN_E_MEMORY. */
wn_status wn_inspect_cache(const struct wn_inspect_options *options, FILE *out,
                           struct wn_error *err);

#endif
