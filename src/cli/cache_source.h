/* SPDX-License-Identifier: MIT */
/* A cache file that is gone on from: what it says of itself, its model, and its session. */
#ifndef WN_CLI_CACHE_SOURCE_H
#define WN_CLI_CACHE_SOURCE_H

#include "winnow.h"

#include <jansson.h>
#include <sys/stat.h>

/* Zero-initialise; free with wn_cache_source_free. The functions stand in the order in which they are
 * called. */
struct wn_cache_source {
    const char *path;
    struct wn_cache_info info;
    json_t *meta;       /* NULL: none */
    struct stat loaded; /* the file as it was loaded */
    double load_seconds;
};

/* Reads what the file at `path`, which must outlive the source, says of itself. WN_E_IO,
 * WN_E_FORMAT, with a sentence on the cache. */
wn_status wn_cache_source_read(struct wn_cache_source *source, const char *path,
                               struct wn_error *err);
/* The model to open: *model_path where it is not NULL, which must then be the file's; otherwise the
 * one that the file remembers, owned by the source, or WINNOW_MODEL. WN_E_MODEL. */
wn_status wn_cache_source_find_model(const struct wn_cache_source *source, const char **model_path,
                                     struct wn_error *err);
/* Makes a session of it. */
wn_status wn_cache_source_load(struct wn_cache_source *source, struct wn_engine *engine,
                               struct wn_session **session, struct wn_error *err);
/* WN_E_IO when the file was changed in place since it was loaded: what is mapped of it may then be
 * anything. A new file in its place does no harm. */
wn_status wn_cache_source_check_unchanged(const struct wn_cache_source *source,
                                          struct wn_error *err);
void wn_cache_source_free(struct wn_cache_source *source);

#endif
