/* SPDX-License-Identifier: MIT */
#include "cli/calibrate_options.h"
#include "cli/calibrate_table.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "core/clock.h"
#include "core/utf8_stream.h"
#include "eval/calibration.h"
#include "eval/output_path.h"
#include "eval/text_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct job {
    const struct wn_calibrate_cli *options;
    struct wn_model *model;
    struct wn_model_info model_info;
    struct wn_engine *engine;
    struct wn_engine_info engine_info;
    int n_texts;
    struct wn_tokens *text; /* [n_texts] */
    uint64_t fingerprint;
    char path[WN_CALIBRATION_PATH_MAX]; /* where the calibration goes */
    struct wn_calibration calibration;
    struct wn_progress progress;
    int64_t n_done, n_total; /* tokens read and repeated */
    double seconds;
};

/* ---- before ---- */

static wn_status open_model(struct job *job, struct wn_error *err) {
    const char *path = job->options->reading.model_path;
    struct wn_error why = {0};
    wn_status status = wn_model_open(path, &job->model, &why);
    if (status != WN_OK) {
        return wn_error_set(err, status, "cannot use the model %.200s (%s)", path, why.message);
    }
    wn_model_info(job->model, &job->model_info);
    return wn_model_fingerprint(path, &job->fingerprint, err);
}

/* Found out before anything long begins. */
static wn_status choose_path(struct job *job, struct wn_error *err) {
    const char *given = job->options->output_path;
    if (given == NULL) {
        return wn_calibration_place(job->options->reading.model_path, job->fingerprint, job->path,
                                    err);
    }
    const int n = snprintf(job->path, sizeof job->path, "%s", given);
    if (n < 0 || (size_t)n >= sizeof job->path) {
        return wn_error_set(err, WN_E_ARG, "the output's name is too long (%d bytes)", n);
    }
    return wn_output_check(job->path, err);
}

static wn_status read_text(const struct job *job, const char *path, struct wn_tokens *out,
                           struct wn_error *err) {
    struct wn_text_file file = {0};
    wn_status status = wn_text_file_read(path, &file, err);
    if (status == WN_OK && !job->options->reading.quiet &&
        !wn_utf8_is_text(file.bytes, file.n_bytes)) {
        fprintf(stderr,
                "winnow: warning: %.200s holds bytes that are not text (NUL or invalid UTF-8; they "
                "are read as the replacement character)\n",
                path);
    }
    if (status == WN_OK) {
        status = wn_calibration_tokenize(job->model, strcmp(path, "-") == 0 ? "the text" : path,
                                         file.bytes, file.n_bytes, out, err);
    }
    wn_text_file_free(&file);
    return status;
}

static wn_status read_texts(struct job *job, struct wn_error *err) {
    const struct wn_flag_texts *given = &job->options->texts;
    const int n_texts = given->n > 0 ? given->n : wn_n_builtin_texts;
    job->text = calloc((size_t)n_texts, sizeof *job->text);
    if (job->text == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for %d texts", n_texts);
    }
    wn_status status = WN_OK;
    for (int t = 0; t < n_texts && status == WN_OK; t++, job->n_texts++) {
        const struct wn_builtin_text *builtin = &wn_builtin_texts[t];
        status = given->n > 0 ? read_text(job, given->text[t], &job->text[t], err)
                              : wn_calibration_tokenize(job->model, builtin->name, builtin->bytes,
                                                        builtin->n_bytes, &job->text[t], err);
    }
    return status;
}

static wn_status make_engine(struct job *job, struct wn_error *err) {
    const struct wn_reading_options *reading = &job->options->reading;
    struct wn_engine_options options;
    wn_engine_options_default(&options);
    options.n_ctx = WN_CALIBRATION_MAX_TOKENS;
    options.n_batch = (int)reading->n_batch;
    options.n_threads = (int)reading->n_threads;
    options.kernels = reading->kernels;
    struct wn_error why = {0};
    wn_status status = wn_engine_create(job->model, &options, &job->engine, &why);
    if (status != WN_OK) {
        return wn_error_set(err, status, "cannot prepare the model (%s)", why.message);
    }
    wn_engine_info(job->engine, &job->engine_info);
    return WN_OK;
}

/* ---- measuring ---- */

static bool on_progress(void *user, int64_t n_done, int64_t n_total) {
    struct job *job = user;
    job->n_done = n_done;
    job->n_total = n_total;
    wn_progress_update(&job->progress, n_done, n_total, wn_clock());
    return !wn_interrupt_raised();
}

static wn_status measure(struct job *job, struct wn_error *err) {
    const struct wn_calibrate_options options = {.on_progress = on_progress, .user = job};
    const double started = wn_clock();
    wn_progress_begin(&job->progress, stderr,
                      wn_progress_style_of(stderr, job->options->reading.quiet), "calibrating", 0,
                      started);
    wn_interrupt_catch();
    wn_status status =
        wn_calibrate(job->engine, job->text, job->n_texts, &options, &job->calibration, err);
    wn_interrupt_release();
    wn_progress_end(&job->progress);
    job->seconds = wn_clock() - started;
    return status == WN_OK && wn_interrupt_raised() ? WN_E_ABORTED : status;
}

/* ---- output ---- */

static json_t *numbers(struct wn_json *json, const float *value, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++) {
        json->failed =
            json_array_append_new(array, json_real((double)value[i])) != 0 || json->failed;
    }
    return array;
}

static json_t *layers_json(struct wn_json *json, const struct wn_calibration *calibration) {
    json_t *layers = json_array();
    const float *share = calibration->share, *gain = calibration->gain;
    for (int i = 0; i < calibration->n_layers; i++) {
        json_t *object = json_object(), *shares = json_array();
        wn_json_put_number(json, object, "rho", (double)calibration->rho[i]);
        wn_json_put(json, object, "gain", numbers(json, gain, calibration->n_heads[i]));
        for (int h = 0; h < calibration->n_kv_heads[i]; h++, share += WN_CALIBRATION_N_KEEP) {
            json_t *row = numbers(json, share, WN_CALIBRATION_N_KEEP);
            json->failed = json_array_append_new(shares, row) != 0 || json->failed;
        }
        gain += calibration->n_heads[i];
        wn_json_put(json, object, "share", shares);
        json->failed = json_array_append_new(layers, object) != 0 || json->failed;
    }
    return layers;
}

static wn_status print_json(const struct job *job, struct wn_error *err) {
    struct wn_json json = {0};
    json_t *root = json_object(), *keep = json_array(), *model = json_object();
    for (int s = 0; s < WN_CALIBRATION_N_KEEP; s++) {
        json.failed =
            json_array_append_new(keep, json_real(job->calibration.keep[s])) != 0 || json.failed;
    }
    wn_json_put_string(&json, model, "path", job->options->reading.model_path);
    wn_json_put_string(&json, model, "description", job->model_info.description);
    wn_json_put(&json, root, "model", model);
    wn_json_put_string(&json, root, "file", job->path);
    wn_json_put_integer(&json, root, "texts", job->calibration.n_texts);
    wn_json_put_integer(&json, root, "tokens", job->calibration.n_tokens);
    wn_json_put_integer(&json, root, "threads", job->engine_info.n_threads);
    wn_json_put_number(&json, root, "seconds", job->seconds);
    wn_json_put(&json, root, "keep", keep);
    wn_json_put(&json, root, "layers", layers_json(&json, &job->calibration));
    return wn_json_print(&json, root, stdout, err);
}

static wn_status print_text(const struct job *job, struct wn_error *err) {
    struct wn_text32 count, time;
    printf("model      %s, %s\n", job->model_info.description, job->options->reading.model_path);
    printf("texts      %d%s, %s tokens\n", job->n_texts,
           job->options->texts.n > 0 ? "" : " built-in",
           wn_format_count(job->calibration.n_tokens, &count));
    printf("time       %s\n", wn_format_seconds(job->seconds, &time));
    printf("stored     %s\n\n", job->path);
    return wn_calibrate_print_table(&job->calibration, stdout, err);
}

static wn_status print(const struct job *job, struct wn_error *err) {
    wn_status status = WN_OK;
    if (job->options->json) {
        status = print_json(job, err);
    } else if (!job->options->reading.quiet) {
        status = print_text(job, err);
    }
    if (status == WN_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        status =
            wn_error_set(err, WN_E_IO, "cannot write to standard output (%s)", strerror(errno));
    }
    return status;
}

/* ---- the whole ---- */

static wn_status run(struct job *job, struct wn_error *err) {
    wn_status (*const steps[])(struct job *, struct wn_error *) = {
        open_model, choose_path, read_texts, make_engine, measure,
    };
    wn_status status = WN_OK;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && status == WN_OK; i++) {
        status = steps[i](job, err);
    }
    if (status == WN_OK) {
        status = wn_calibration_write(job->path, &job->calibration, job->fingerprint,
                                      job->model_info.description, err);
    }
    return status == WN_OK ? print(job, err) : status;
}

static void print_stopped(const struct job *job) {
    struct wn_text32 n_done, n_total;
    fprintf(stderr, "winnow: stopped on request after %s of %s tokens (nothing was stored)\n",
            wn_format_count(job->n_done, &n_done), wn_format_count(job->n_total, &n_total));
}

int wn_cmd_calibrate(int argc, char **argv) {
    struct wn_calibrate_cli options;
    struct wn_error err = {0};
    if (wn_calibrate_options_parse(argc, argv, &options, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (options.help) {
        wn_args_print_help(&wn_calibrate_flags, stdout);
        return WN_EXIT_OK;
    }
    struct job job = {.options = &options};
    const wn_status status = run(&job, &err);
    if (status == WN_E_ABORTED) {
        print_stopped(&job);
    } else if (status != WN_OK) {
        wn_print_error(status, &err);
    }
    wn_calibration_free(&job.calibration);
    for (int t = 0; job.text != NULL && t < job.n_texts; t++) {
        wn_tokens_free(&job.text[t]);
    }
    free(job.text);
    wn_engine_free(job.engine);
    wn_model_free(job.model);
    return wn_exit_status(status);
}
