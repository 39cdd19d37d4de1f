/* SPDX-License-Identifier: MIT */
/*
 * The description in a cache file: JSON, for people and programs.
 *
 *     {"format": "winnow cache", "program": "winnow VERSION",
 *      "model": {"path": absolute, "description", "architecture"},
 *      "documents": [{"name": as given, "bytes"}], "document_tokens",
 *      "policy": {as in the output of --json},
 *      "kept": {"entries_before", "entries_after", "share"}}
 *
 * It holds no times, so that the same texts and flags give the same bytes.
 */
#ifndef WN_CLI_CACHE_META_H
#define WN_CLI_CACHE_META_H

#include "cli/json.h"
#include "cli/reading.h"
#include "winnow.h"

/* A conversation's member in place of "document_tokens" and "kept"; see chat_file.h. */
#define WN_META_CONVERSATION "conversation"

/* Its first members: format, program, model and documents. */
json_t *wn_cache_meta_begin(struct wn_json *json, const struct wn_reading *reading);
/* Makes it of what was read and what became of it; to be freed. WN_E_MEMORY. */
wn_status wn_cache_meta_make(const struct wn_reading *reading,
                             const struct wn_compress_report *report, char **out,
                             struct wn_error *err);

/* A file's description as JSON, to be released with json_decref; NULL: none, or none that can be
 * read. It may be anybody's: every member may be missing, or of another type. */
json_t *wn_cache_meta_parse(const char *text);
/* Whether a text is free of control characters, which a terminal would obey. */
bool wn_cache_meta_is_plain(const char *text);
/* A string member of an object member; NULL: there is none that is plain. */
const char *wn_cache_meta_text(const json_t *meta, const char *object, const char *key);

/* Tokens of the text: those that the file says, or the documents' where they are more, because positions
 * were re-based. */
int64_t wn_cache_n_text(const struct wn_cache_info *info, const json_t *meta);

/* Refuses a cache file that could not be read or loaded: `why` is the library's sentence, which
 * becomes "cannot use the cache PATH (it is ...; what to do)". Returns the status. */
wn_status wn_cache_refuse(wn_status status, const char *path, const struct wn_error *why,
                          struct wn_error *err);

#endif
