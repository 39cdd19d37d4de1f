/* SPDX-License-Identifier: MIT */
#include "cli/cache_source.h"

#include "cli/cache_meta.h"
#include "core/clock.h"

#include <stdlib.h>

wn_status wn_cache_source_read(struct wn_cache_source *source, const char *path,
                               struct wn_error *err) {
    struct wn_error why = {0};
    source->path = path;
    wn_status status = wn_cache_info_read(path, &source->info, &why);
    if (status != WN_OK) {
        return wn_cache_refuse(status, path, &why, err);
    }
    source->meta = wn_cache_meta_parse(source->info.meta);
    return WN_OK;
}

/* ---- its model ---- */

static bool is_file(const char *path) {
    struct stat info;
    return path != NULL && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* What is wrong with a model that cannot be read is said by opening it. */
static bool is_other_model(const struct wn_cache_source *source, const char *model_path) {
    uint64_t fingerprint = 0;
    return wn_model_fingerprint(model_path, &fingerprint, NULL) == WN_OK &&
           fingerprint != source->info.fingerprint;
}

/* Another model than the file's is refused before it is opened. `who` names it. */
static wn_status check_model(const struct wn_cache_source *source, const char *model_path,
                             const char *who, const char *remembered, struct wn_error *err) {
    if (!is_other_model(source, model_path)) {
        return WN_OK;
    }
    return wn_error_set(err, WN_E_MODEL,
                        "cannot use the cache %.160s (%s another model than the one that made "
                        "it%s%.200s; name that one with -m)",
                        source->path, who, remembered != NULL ? ", " : "",
                        remembered != NULL ? remembered : "");
}

/* The model at the remembered place is not what it was. */
static wn_status check_remembered(const struct wn_cache_source *source, const char *remembered,
                                  struct wn_error *err) {
    if (!is_other_model(source, remembered)) {
        return WN_OK;
    }
    return wn_error_set(err, WN_E_MODEL,
                        "cannot use the cache %.160s (%.200s is not any more the model that made "
                        "it; name that one with -m, or compress again)",
                        source->path, remembered);
}

wn_status wn_cache_source_find_model(const struct wn_cache_source *source, const char **model_path,
                                     struct wn_error *err) {
    const char *remembered = wn_cache_meta_text(source->meta, "model", "path");
    const char *environment = getenv("WINNOW_MODEL");
    if (*model_path != NULL) {
        return check_model(source, *model_path, "-m names", remembered, err);
    }
    if (is_file(remembered)) {
        *model_path = remembered;
        return check_remembered(source, remembered, err);
    }
    if (environment != NULL && environment[0] != '\0') {
        *model_path = environment;
        return check_model(source, environment, "WINNOW_MODEL names", remembered, err);
    }
    return wn_error_set(err, WN_E_MODEL,
                        "no model for the cache %.120s (%s%.200s; name it with -m)", source->path,
                        remembered != NULL ? "the one that made it is not any more at "
                                           : "it does not tell which one made it",
                        remembered != NULL ? remembered : "");
}

/* ---- its session ---- */

wn_status wn_cache_source_load(struct wn_cache_source *source, struct wn_engine *engine,
                               struct wn_session **session, struct wn_error *err) {
    struct wn_error why = {0};
    const double started = wn_clock();
    if (stat(source->path, &source->loaded) != 0) {
        source->loaded = (struct stat){0};
    }
    wn_status status = wn_session_load(engine, source->path, session, &why);
    source->load_seconds = wn_clock() - started;
    return status == WN_OK ? WN_OK : wn_cache_refuse(status, source->path, &why, err);
}

wn_status wn_cache_source_check_unchanged(const struct wn_cache_source *source,
                                          struct wn_error *err) {
    const struct stat *then = &source->loaded;
    struct stat now;
    if (stat(source->path, &now) != 0 || now.st_dev != then->st_dev || now.st_ino != then->st_ino ||
        (now.st_size == then->st_size && now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == then->st_mtim.tv_nsec)) {
        return WN_OK;
    }
    return wn_error_set(err, WN_E_IO,
                        "the cache %.300s was changed while it was open (something wrote into it; "
                        "ask again)",
                        source->path);
}

void wn_cache_source_free(struct wn_cache_source *source) {
    wn_cache_info_free(&source->info);
    json_decref(source->meta);
    *source = (struct wn_cache_source){0};
}
