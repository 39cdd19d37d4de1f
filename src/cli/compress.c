/* SPDX-License-Identifier: MIT */
#include "cli/cache_meta.h"
#include "cli/commands.h"
#include "cli/compress_options.h"
#include "cli/compression.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/memory.h"
#include "cli/reading.h"
#include "cli/standing.h"
#include "core/clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* One execution of `winnow compress`. */
struct compress {
    const struct wn_compress_options *options;
    struct wn_reading reading;
    struct wn_session *session;
    struct wn_standing prefill; /* while the document is read */
    struct wn_compress_report report;
    int64_t full_resident_bytes, compressed_resident_bytes;
    int64_t file_bytes;
    double save_seconds;
};

/* ---- before ---- */

static wn_status prepare(struct compress *compress, struct wn_error *err) {
    const struct wn_compress_options *options = compress->options;
    struct wn_reading *reading = &compress->reading;
    int64_t limit = 0, n_ctx = 0;
    reading->is_bounded = options->standing.prefill != WN_STANDING_NONE;
    wn_status status = wn_reading_check_output(&options->reading, options->output_path, err);
    if (status == WN_OK) {
        status = wn_reading_open_document(reading, err);
    }
    if (status == WN_OK) {
        status = wn_reading_limit(reading, 0, &limit, err);
    }
    if (status == WN_OK) {
        n_ctx = options->reading.n_ctx == WN_N_CTX_AUTO && reading->n_prompt_max < limit
                    ? reading->n_prompt_max
                    : limit;
        status = wn_reading_make_room(reading, limit, &n_ctx, err);
    }
    if (status == WN_OK) {
        status = wn_reading_check_budget(reading, err);
    }
    const int64_t n_prefill = wn_standing_tokens(options->standing.prefill, limit);
    if (status == WN_OK) {
        status = wn_standing_check_context("prefill-budget", n_prefill, limit, err);
        reading->n_held = n_prefill;
    }
    const struct wn_policy *fallback = options->has_fallback ? &options->fallback : NULL;
    if (status == WN_OK) {
        status = wn_reading_begin(reading, fallback, n_ctx, &compress->session, err);
    }
    if (status != WN_OK) {
        return status;
    }
    return wn_standing_read(&compress->prefill, n_prefill, reading, fallback, compress->session,
                            err);
}

/* ---- the work ---- */

static wn_status save(struct compress *compress, struct wn_error *err) {
    const struct wn_reading *reading = &compress->reading;
    const char *path = compress->options->output_path;
    char *meta = NULL;
    wn_status status = wn_cache_meta_make(reading, &compress->report, &meta, err);
    if (status != WN_OK) {
        return status;
    }
    /* Of a text that was re-based the ids no longer stand at their positions. */
    const struct wn_save_options options = {
        .tokens = reading->document_tokens.id,
        .n_tokens = wn_reading_is_beyond(reading) ? 0 : reading->document_tokens.n,
        .meta = meta};
    const double started = wn_clock();
    status = wn_session_save(compress->session, path, &options, err);
    compress->save_seconds = wn_clock() - started;
    free(meta);
    struct stat info;
    compress->file_bytes = status == WN_OK && stat(path, &info) == 0 ? (int64_t)info.st_size : -1;
    return status;
}

static double entries_per_head(const struct wn_session *session) {
    struct wn_session_usage usage;
    wn_session_usage(session, &usage);
    return usage.n_heads > 0 ? (double)usage.n_entries / usage.n_heads : 0;
}

/* For questions: a text that went beyond the context may end where it does. */
static wn_status leave_room(const struct wn_reading *reading, struct wn_session *session,
                            struct wn_error *err) {
    const double before = entries_per_head(session);
    const wn_status status = wn_session_rebase(session, err);
    const double after = entries_per_head(session);
    if (status == WN_OK && after < 0.99 * before) {
        struct wn_text32 n_before, n_after;
        wn_reading_say(reading,
                       "note: of %s entries per head %s are kept, so that half of the context is "
                       "left for questions (lower --prefill-budget, or raise -c)",
                       wn_format_count((int64_t)llround(before), &n_before),
                       wn_format_count((int64_t)llround(after), &n_after));
    }
    return status == WN_E_CONTEXT ? WN_OK : status;
}

static wn_status work(struct compress *compress, struct wn_error *err) {
    struct wn_reading *reading = &compress->reading;
    wn_interrupt_catch();
    wn_status status = wn_reading_feed_document(reading, compress->session, err);
    if (status == WN_OK && wn_reading_is_beyond(reading)) {
        status = leave_room(reading, compress->session, err);
    }
    if (status == WN_OK) {
        compress->full_resident_bytes = wn_resident_bytes();
        status =
            wn_standing_compress(&compress->prefill, NULL, compress->options->keeps_what_is_left,
                                 reading, compress->session, &compress->report, err);
        compress->compressed_resident_bytes = wn_resident_bytes();
    }
    /* A signal until here leaves no file; from here on the file is completed. */
    wn_interrupt_ignore();
    if (status == WN_OK) {
        status = wn_interrupt_raised() ? WN_E_ABORTED : save(compress, err);
    }
    wn_interrupt_release();
    return status;
}

/* ---- output ---- */

static void print_text(const struct compress *compress, const struct wn_compression *compression,
                       FILE *out) {
    const struct wn_reading *reading = &compress->reading;
    struct wn_text32 before, after, size, seconds, rate, count;
    wn_reading_print_texts(reading, out);
    wn_reading_print_policy(reading, out);
    wn_compression_print(compression, out);
    wn_standing_print(&compress->prefill, "while reading ", out);
    fprintf(out, "resident   %s before, %s after; the model file is %s of both\n",
            wn_format_bytes(compress->full_resident_bytes, &before),
            wn_format_bytes(compress->compressed_resident_bytes, &after),
            wn_format_bytes(reading->model_info.file_bytes, &size));
    fprintf(out, "reading    %s tokens in %s (%s)\n", wn_format_count(reading->n_read, &count),
            wn_format_seconds(reading->read_seconds, &seconds),
            wn_format_rate(reading->n_read, reading->read_seconds, &rate));
    wn_reading_print_rehearsal(reading, out);
    wn_reading_print_machine(reading, out);
    fprintf(out, "stored     %s, %s, in %s\n", compress->options->output_path,
            wn_format_bytes(compress->file_bytes, &size),
            wn_format_seconds(compress->save_seconds, &seconds));
}

static wn_status print_json(const struct compress *compress, struct wn_error *err) {
    const struct wn_reading *reading = &compress->reading;
    struct wn_json json = {0};
    json_t *root = json_object(), *settings = json_object(), *memory = json_object(),
           *file = json_object();
    wn_json_put_reading_policy(&json, settings, reading);
    wn_json_put_engine(&json, settings, &reading->engine_info);
    wn_json_put(&json, root, "fitted", wn_json_fitted(&json, reading));
    wn_json_put_measured(&json, memory, "resident_before_bytes", compress->full_resident_bytes);
    wn_json_put_measured(&json, memory, "resident_after_bytes",
                         compress->compressed_resident_bytes);
    wn_json_put_string(&json, file, "path", compress->options->output_path);
    wn_json_put_measured(&json, file, "bytes", compress->file_bytes);
    wn_json_put_number(&json, file, "seconds", compress->save_seconds);
    wn_json_put_string(&json, root, "winnow", wn_version());
    wn_json_put(&json, root, "model", wn_json_model(&json, reading));
    wn_json_put(&json, root, "settings", settings);
    wn_json_put_documents(&json, root, &reading->documents);
    wn_json_put(&json, root, "prompt", wn_json_prompt(&json, reading));
    wn_json_put(&json, root, "prefill_budget", wn_json_standing(&json, &compress->prefill));
    wn_json_put(&json, root, "memory", memory);
    wn_json_put(&json, root, "compression", wn_json_compression(&json, &compress->report));
    wn_json_put(&json, root, "file", file);
    return wn_json_print(&json, root, stdout, err);
}

static wn_status print(const struct compress *compress, struct wn_error *err) {
    struct wn_compression compression = {0};
    wn_compression_add(&compression, &compress->reading.policy, &compress->report);
    wn_reading_note(&compress->reading, compression.is_flat_pyramid, compression.is_all_protected);
    wn_status status = WN_OK;
    if (compress->options->json) {
        status = print_json(compress, err);
    } else if (!compress->options->reading.quiet) {
        print_text(compress, &compression, stderr);
    }
    if (status == WN_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        status =
            wn_error_set(err, WN_E_IO, "cannot write to standard output (%s)", strerror(errno));
    }
    return status;
}

/* ---- the whole ---- */

int wn_cmd_compress(int argc, char **argv) {
    struct wn_compress_options options;
    struct wn_error err = {0};
    if (wn_compress_options_parse(argc, argv, &options, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (options.help) {
        wn_args_print_help(&wn_compress_flags, stdout);
        return WN_EXIT_OK;
    }
    if (!options.reading.quiet) {
        wn_compress_options_warn(&options, stderr);
    }
    struct compress compress = {.options = &options,
                                .reading = {.options = &options.reading,
                                            .policy = options.policy,
                                            .max_error = options.max_error}};
    wn_status status = prepare(&compress, &err);
    if (status == WN_OK) {
        status = work(&compress, &err);
    }
    if (status == WN_OK) {
        status = print(&compress, &err);
    }
    if (status == WN_E_ABORTED) {
        wn_reading_print_stopped(&compress.reading, " (nothing was stored)", stderr);
    } else if (status != WN_OK) {
        wn_print_error(status, &err);
    }
    wn_session_free(compress.session);
    wn_reading_free(&compress.reading);
    return wn_exit_status(status);
}
