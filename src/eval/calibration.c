/* SPDX-License-Identifier: MIT */
#include "eval/calibration.h"

#include "eval/output_path.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char format_name[] = "winnow calibration";
enum { FORMAT_VERSION = 1 };
/* Far more than any model needs. */
enum { MAX_FILE_BYTES = 8 << 20, MAX_LAYERS = 4096, MAX_HEADS = 65536 };
enum { MAX_TEXT_BYTES = WN_CALIBRATION_MAX_TOKENS * 512 };

/* ---- texts ---- */

wn_status wn_calibration_tokenize(const struct wn_model *model, const char *name, const char *text,
                                  size_t n_bytes, struct wn_tokens *out, struct wn_error *err) {
    struct wn_model_info info;
    struct wn_tokens tokens = {0};
    wn_model_info(model, &info);
    int64_t n_most = info.n_ctx_train - WN_REHEARSAL_TOKENS;
    n_most = n_most < WN_CALIBRATION_MAX_TOKENS ? n_most : WN_CALIBRATION_MAX_TOKENS;
    if (n_most < WN_CALIBRATION_MIN_TOKENS) {
        return wn_error_set(err, WN_E_CONTEXT,
                            "the model's context of %lld tokens is too short to calibrate it (%d "
                            "are needed)",
                            (long long)info.n_ctx_train,
                            WN_CALIBRATION_MIN_TOKENS + WN_REHEARSAL_TOKENS);
    }
    /* No vocabulary has tokens so long that what is left out would be used. */
    const size_t n_read = n_bytes < MAX_TEXT_BYTES ? n_bytes : MAX_TEXT_BYTES;
    wn_status status = wn_model_chat_document(model, text, n_read, &tokens, err);
    if (status == WN_OK && tokens.n < WN_CALIBRATION_MIN_TOKENS) {
        status = wn_error_set(err, WN_E_CONTEXT,
                              "%.200s is too short to calibrate with (%lld tokens; give a text of "
                              "at least %d, better %d)",
                              name, (long long)tokens.n, WN_CALIBRATION_MIN_TOKENS,
                              WN_CALIBRATION_MAX_TOKENS);
    }
    if (status != WN_OK) {
        wn_tokens_free(&tokens);
        return status;
    }
    tokens.n = tokens.n < n_most ? tokens.n : n_most;
    *out = tokens;
    return WN_OK;
}

static wn_status tokenize_builtin(const struct wn_model *model, struct wn_tokens **out,
                                  struct wn_error *err) {
    struct wn_tokens *texts = calloc((size_t)wn_n_builtin_texts, sizeof *texts);
    if (texts == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the built-in texts");
    }
    wn_status status = WN_OK;
    for (int t = 0; t < wn_n_builtin_texts && status == WN_OK; t++) {
        const struct wn_builtin_text *text = &wn_builtin_texts[t];
        status =
            wn_calibration_tokenize(model, text->name, text->bytes, text->n_bytes, &texts[t], err);
    }
    *out = texts;
    return status;
}

static void free_texts(struct wn_tokens *texts) {
    for (int t = 0; texts != NULL && t < wn_n_builtin_texts; t++) {
        wn_tokens_free(&texts[t]);
    }
    free(texts);
}

/* ---- writing ---- */

static void put(json_t *object, const char *key, json_t *value, bool *failed) {
    *failed = json_object_set_new(object, key, value) != 0 || *failed;
}

static json_t *numbers(const float *value, int n, bool *failed) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++) {
        *failed = json_array_append_new(array, json_real((double)value[i])) != 0 || *failed;
    }
    return array;
}

static json_t *layer_json(const struct wn_calibration *calibration, int layer, bool *failed) {
    json_t *object = json_object();
    json_t *shares = json_array();
    const size_t first = (size_t)wn_calibration_first_kv_head(calibration, layer);
    for (int h = 0; h < calibration->n_kv_heads[layer]; h++) {
        const float *share = calibration->share + (first + (size_t)h) * WN_CALIBRATION_N_KEEP;
        json_t *row = numbers(share, WN_CALIBRATION_N_KEEP, failed);
        *failed = json_array_append_new(shares, row) != 0 || *failed;
    }
    put(object, "rho", json_real((double)calibration->rho[layer]), failed);
    put(object, "gain",
        numbers(calibration->gain + wn_calibration_first_head(calibration, layer),
                calibration->n_heads[layer], failed),
        failed);
    put(object, "share", shares, failed);
    return object;
}

static json_t *whole_json(const struct wn_calibration *calibration, uint64_t fingerprint,
                          const char *description, bool *failed) {
    json_t *root = json_object(), *model = json_object(), *layers = json_array();
    json_t *keep = json_array();
    char hash[32];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)fingerprint);
    put(model, "fingerprint", json_string(hash), failed);
    /* NULL for what is not UTF-8. */
    json_t *text = json_string(description != NULL ? description : "");
    put(model, "description", text != NULL ? text : json_string(""), failed);
    for (int s = 0; s < WN_CALIBRATION_N_KEEP; s++) {
        *failed = json_array_append_new(keep, json_real(calibration->keep[s])) != 0 || *failed;
    }
    for (int i = 0; i < calibration->n_layers; i++) {
        json_t *layer = layer_json(calibration, i, failed);
        *failed = json_array_append_new(layers, layer) != 0 || *failed;
    }
    put(root, "format", json_string(format_name), failed);
    put(root, "version", json_integer(FORMAT_VERSION), failed);
    put(root, "model", model, failed);
    put(root, "texts", json_integer(calibration->n_texts), failed);
    put(root, "tokens", json_integer(calibration->n_tokens), failed);
    put(root, "keep", keep, failed);
    put(root, "layers", layers, failed);
    return root;
}

/* As a file that the process makes would have them. */
static mode_t usual_mode(void) {
    const mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* 9 digits hold a float exactly. */
static bool dump(json_t *root, int fd) {
    FILE *file = fdopen(fd, "wb");
    if (file == NULL) {
        close(fd);
        return false;
    }
    bool ok = json_dumpf(root, file, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0;
    ok = fputc('\n', file) != EOF && ok;
    ok = fflush(file) == 0 && ok;
    ok = fchmod(fd, usual_mode()) == 0 && fsync(fd) == 0 && ok;
    return fclose(file) == 0 && ok;
}

static wn_status write_atomically(const char *path, json_t *root, struct wn_error *err) {
    const size_t n_path = strlen(path);
    char *temporary = malloc(n_path + sizeof ".XXXXXX");
    if (temporary == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    }
    memcpy(temporary, path, n_path);
    memcpy(temporary + n_path, ".XXXXXX", sizeof ".XXXXXX");
    const int fd = mkstemp(temporary);
    const bool made = fd >= 0;
    bool ok = made && dump(root, fd);
    ok = ok && rename(temporary, path) == 0;
    const int why = errno;
    if (made && !ok) {
        unlink(temporary);
    }
    free(temporary);
    return ok ? WN_OK : wn_error_set(err, WN_E_IO, "cannot write %.300s (%s)", path, strerror(why));
}

wn_status wn_calibration_write(const char *path, const struct wn_calibration *calibration,
                               uint64_t fingerprint, const char *description,
                               struct wn_error *err) {
    wn_status status = wn_calibration_check(calibration, err);
    if (status != WN_OK) {
        return status;
    }
    bool failed = false;
    json_t *root = whole_json(calibration, fingerprint, description, &failed);
    status = failed ? wn_error_set(err, WN_E_MEMORY, "out of memory for the calibration")
                    : write_atomically(path, root, err);
    json_decref(root);
    return status;
}

/* ---- reading ---- */

/* What the file holds, whether it makes sense or not; false when a member is missing, of another
 * kind or beyond any model. */
static bool read_number(const json_t *value, double *out) {
    *out = json_is_number(value) ? json_number_value(value) : NAN;
    return json_is_number(value);
}

static bool read_floats(const json_t *array, size_t n, float *out) {
    if (!json_is_array(array) || json_array_size(array) != n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        double x;
        if (!read_number(json_array_get(array, i), &x)) {
            return false;
        }
        /* What a float cannot hold is out of every range. */
        out[i] = fabs(x) <= 3e38 ? (float)x : INFINITY;
    }
    return true;
}

static bool read_count(const json_t *object, const char *key, int64_t most, int64_t *out) {
    const json_t *value = json_object_get(object, key);
    *out = json_is_integer(value) ? json_integer_value(value) : -1;
    return *out >= 0 && *out <= most;
}

/* Heads of each layer, so that arrays can be made. */
static bool read_sizes(const json_t *layers, struct wn_calibration *out) {
    const size_t n_layers = json_array_size(layers);
    if (n_layers < 1 || n_layers > MAX_LAYERS) {
        return false;
    }
    out->n_layers = (int)n_layers;
    out->n_kv_heads = calloc(n_layers, sizeof *out->n_kv_heads);
    out->n_heads = calloc(n_layers, sizeof *out->n_heads);
    out->rho = calloc(n_layers, sizeof *out->rho);
    size_t n_heads = 0, n_kv_heads = 0;
    for (size_t i = 0; i < n_layers && out->n_kv_heads != NULL && out->n_heads != NULL; i++) {
        const json_t *layer = json_array_get(layers, i);
        const size_t n_gain = json_array_size(json_object_get(layer, "gain"));
        const size_t n_share = json_array_size(json_object_get(layer, "share"));
        if (n_gain < 1 || n_gain > MAX_HEADS || n_share < 1 || n_share > n_gain) {
            return false;
        }
        out->n_heads[i] = (int)n_gain;
        out->n_kv_heads[i] = (int)n_share;
        n_heads += n_gain;
        n_kv_heads += n_share;
    }
    out->gain = calloc(n_heads, sizeof *out->gain);
    out->share = calloc(n_kv_heads * WN_CALIBRATION_N_KEEP, sizeof *out->share);
    return true;
}

static bool read_layer(const json_t *layer, struct wn_calibration *out, int i) {
    const int n_kv_heads = out->n_kv_heads[i];
    float *share =
        out->share + (size_t)wn_calibration_first_kv_head(out, i) * WN_CALIBRATION_N_KEEP;
    double rho;
    if (!read_number(json_object_get(layer, "rho"), &rho) ||
        !read_floats(json_object_get(layer, "gain"), (size_t)out->n_heads[i],
                     out->gain + wn_calibration_first_head(out, i))) {
        return false;
    }
    out->rho[i] = fabs(rho) <= 3e38 ? (float)rho : INFINITY;
    for (int h = 0; h < n_kv_heads; h++) {
        const json_t *row = json_array_get(json_object_get(layer, "share"), (size_t)h);
        if (!read_floats(row, WN_CALIBRATION_N_KEEP, share + h * WN_CALIBRATION_N_KEEP)) {
            return false;
        }
    }
    return true;
}

static wn_status read_members(const json_t *root, struct wn_calibration *out,
                              struct wn_error *err) {
    const json_t *keep = json_object_get(root, "keep");
    const json_t *layers = json_object_get(root, "layers");
    int64_t n_texts;
    bool ok = read_count(root, "texts", INT32_MAX, &n_texts) &&
              read_count(root, "tokens", INT64_MAX, &out->n_tokens) &&
              json_array_size(keep) == WN_CALIBRATION_N_KEEP;
    for (size_t s = 0; ok && s < WN_CALIBRATION_N_KEEP; s++) {
        ok = read_number(json_array_get(keep, s), &out->keep[s]);
    }
    ok = ok && read_sizes(layers, out);
    if (ok && (out->n_kv_heads == NULL || out->n_heads == NULL || out->rho == NULL ||
               out->gain == NULL || out->share == NULL)) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    }
    out->n_texts = ok ? (int)n_texts : 0;
    for (int i = 0; ok && i < out->n_layers; i++) {
        ok = read_layer(json_array_get(layers, (size_t)i), out, i);
    }
    return ok ? WN_OK : wn_error_set(err, WN_E_FORMAT, "a number or a list is missing in it");
}

static wn_status check_header(const json_t *root, uint64_t fingerprint, struct wn_error *err) {
    const char *format = json_string_value(json_object_get(root, "format"));
    const json_t *version = json_object_get(root, "version");
    const char *hash =
        json_string_value(json_object_get(json_object_get(root, "model"), "fingerprint"));
    char expected[32];
    snprintf(expected, sizeof expected, "%016llx", (unsigned long long)fingerprint);
    if (format == NULL || strcmp(format, format_name) != 0 || !json_is_integer(version)) {
        return wn_error_set(err, WN_E_FORMAT, "it is no calibration of Winnow's");
    }
    if (json_integer_value(version) != FORMAT_VERSION) {
        return wn_error_set(err, WN_E_FORMAT, "it is of version %lld, and version %d is read",
                            (long long)json_integer_value(version), FORMAT_VERSION);
    }
    if (hash == NULL || strcmp(hash, expected) != 0) {
        return wn_error_set(err, WN_E_FORMAT, "it was made for another model");
    }
    return WN_OK;
}

static wn_status load_json(const char *path, json_t **root, struct wn_error *err) {
    struct stat info;
    json_error_t why;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return wn_error_set(err, WN_E_IO, "%s", strerror(errno));
    }
    wn_status status = WN_OK;
    if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode)) {
        status = wn_error_set(err, WN_E_IO, "it is not a file");
    } else if (info.st_size > MAX_FILE_BYTES) {
        status = wn_error_set(err, WN_E_FORMAT, "it is too large to be one");
    } else if ((*root = json_loadf(file, JSON_REJECT_DUPLICATES, &why)) == NULL) {
        status = wn_error_set(err, WN_E_FORMAT, "line %d: %.120s", why.line, why.text);
    }
    fclose(file);
    return status;
}

wn_status wn_calibration_read(const char *path, uint64_t fingerprint, struct wn_calibration *out,
                              struct wn_error *err) {
    struct wn_calibration read = {0};
    struct wn_error why = {0};
    json_t *root = NULL;
    wn_status status = load_json(path, &root, &why);
    if (status == WN_OK) {
        status = check_header(root, fingerprint, &why);
    }
    if (status == WN_OK) {
        status = read_members(root, &read, &why);
    }
    if (status == WN_OK && wn_calibration_check(&read, &why) != WN_OK) {
        status = WN_E_FORMAT;
    }
    json_decref(root);
    if (status == WN_OK) {
        *out = read;
        return WN_OK;
    }
    wn_calibration_free(&read);
    return wn_error_set(err, status,
                        "cannot use the calibration %.200s (%s; `winnow calibrate` makes one)",
                        path, why.message);
}

/* ---- places ---- */

static wn_status refuse_path(const char *path, struct wn_error *err) {
    return wn_error_set(err, WN_E_IO, "the path of the calibration of %.200s is too long", path);
}

static bool path_fits(int n_written) {
    return n_written >= 0 && n_written < WN_CALIBRATION_PATH_MAX;
}

static wn_status beside_model(const char *model_path, char *path, struct wn_error *err) {
    const int n = snprintf(path, WN_CALIBRATION_PATH_MAX, "%s.calibration.json", model_path);
    return path_fits(n) ? WN_OK : refuse_path(model_path, err);
}

/* As the XDG base directory specification says: a path that is not absolute is ignored. */
static bool cache_folder(char *path) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL && cache[0] == '/') {
        return path_fits(snprintf(path, WN_CALIBRATION_PATH_MAX, "%s/winnow", cache));
    }
    return home != NULL && home[0] == '/' &&
           path_fits(snprintf(path, WN_CALIBRATION_PATH_MAX, "%s/.cache/winnow", home));
}

static wn_status in_cache(const char *model_path, uint64_t fingerprint, char *path,
                          struct wn_error *err) {
    char folder[WN_CALIBRATION_PATH_MAX];
    if (!cache_folder(folder)) {
        return wn_error_set(err, WN_E_IO,
                            "there is no cache folder for a calibration (neither XDG_CACHE_HOME "
                            "nor HOME is an absolute path)");
    }
    const char *slash = strrchr(model_path, '/');
    const char *name = slash != NULL ? slash + 1 : model_path;
    const int n = snprintf(path, WN_CALIBRATION_PATH_MAX, "%s/%s-%016llx.json", folder, name,
                           (unsigned long long)fingerprint);
    return path_fits(n) ? WN_OK : refuse_path(model_path, err);
}

/* Makes the folders of a path that are missing. */
static bool make_folders(const char *path) {
    char folder[WN_CALIBRATION_PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
            return false;
        }
        *slash = '/';
    }
    return true;
}

wn_status wn_calibration_place(const char *model_path, uint64_t fingerprint, char *path,
                               struct wn_error *err) {
    wn_status status = beside_model(model_path, path, err);
    if (status != WN_OK || wn_output_folder_is_writable(path)) {
        return status;
    }
    status = in_cache(model_path, fingerprint, path, err);
    if (status == WN_OK && !make_folders(path)) {
        status = wn_error_set(err, WN_E_IO, "cannot make the folder of %.300s (%s)", path,
                              strerror(errno));
    }
    return status;
}

/* ---- for an engine ---- */

static wn_status load_from(struct wn_engine *engine, const char *path, uint64_t fingerprint,
                           struct wn_error *err) {
    struct wn_calibration calibration = {0};
    struct wn_error why = {0};
    wn_status status = wn_calibration_read(path, fingerprint, &calibration, err);
    if (status != WN_OK) {
        return status;
    }
    status = wn_engine_set_calibration(engine, &calibration, &why);
    wn_calibration_free(&calibration);
    if (status == WN_OK) {
        return WN_OK;
    }
    return wn_error_set(err, status == WN_E_ARG ? WN_E_FORMAT : status,
                        "cannot use the calibration %.200s (%s; `winnow calibrate` makes one)",
                        path, why.message);
}

static wn_status load_found(struct wn_engine *engine, const char *model_path, uint64_t fingerprint,
                            bool *found, struct wn_error *err) {
    char path[WN_CALIBRATION_PATH_MAX];
    for (int place = 0; place < 2 && !*found; place++) {
        const wn_status placed = place == 0 ? beside_model(model_path, path, NULL)
                                            : in_cache(model_path, fingerprint, path, NULL);
        if (placed != WN_OK || access(path, F_OK) != 0) {
            continue;
        }
        struct wn_error why = {0};
        const wn_status status = load_from(engine, path, fingerprint, &why);
        if (status == WN_E_MEMORY) {
            return wn_error_set(err, status, "%s", why.message);
        }
        *found = status == WN_OK;
        if (status != WN_OK) {
            wn_error_set(err, WN_OK, "%s", why.message);
        }
    }
    return WN_OK;
}

wn_status wn_calibration_load_for(struct wn_engine *engine, const char *model_path,
                                  const char *path, bool *found, struct wn_error *err) {
    uint64_t fingerprint;
    *found = false;
    wn_error_set(err, WN_OK, "%s", "");
    wn_status status = wn_model_fingerprint(model_path, &fingerprint, err);
    if (status != WN_OK) {
        return status;
    }
    if (path == NULL) {
        return load_found(engine, model_path, fingerprint, found, err);
    }
    status = load_from(engine, path, fingerprint, err);
    *found = status == WN_OK;
    return status;
}

/* What was measured serves also where it cannot be stored. */
static void store(const struct wn_model *model, const char *model_path,
                  const struct wn_calibration *calibration, struct wn_error *err) {
    struct wn_model_info info;
    struct wn_error why = {0};
    char path[WN_CALIBRATION_PATH_MAX];
    uint64_t fingerprint;
    wn_model_info(model, &info);
    wn_status status = wn_model_fingerprint(model_path, &fingerprint, &why);
    if (status == WN_OK) {
        status = wn_calibration_place(model_path, fingerprint, path, &why);
    }
    if (status == WN_OK) {
        status = wn_calibration_write(path, calibration, fingerprint, info.description, &why);
    }
    if (status != WN_OK) {
        wn_error_set(err, WN_OK, "the calibration was not stored: %.400s", why.message);
    }
}

wn_status wn_calibration_ensure(struct wn_engine *engine, const struct wn_model *model,
                                const char *model_path, const char *path,
                                const struct wn_calibrate_options *options, bool *measured,
                                struct wn_error *err) {
    bool found;
    *measured = false;
    wn_status status = wn_calibration_load_for(engine, model_path, path, &found, err);
    if (status != WN_OK || found) {
        return status;
    }
    struct wn_calibration calibration = {0};
    struct wn_tokens *texts = NULL;
    status = tokenize_builtin(model, &texts, err);
    if (status == WN_OK) {
        status = wn_calibrate(engine, texts, wn_n_builtin_texts, options, &calibration, err);
    }
    if (status == WN_OK) {
        status = wn_engine_set_calibration(engine, &calibration, err);
    }
    if (status == WN_OK) {
        *measured = true;
        store(model, model_path, &calibration, err);
    }
    free_texts(texts);
    wn_calibration_free(&calibration);
    return status;
}
