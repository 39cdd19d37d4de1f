/* SPDX-License-Identifier: MIT */
#include "eval/json.h"

#include "core/utf8_stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- members ---- */

void wn_json_put(struct wn_json *json, json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) != 0) {
        json->failed = true;
    }
}

void wn_json_append(struct wn_json *json, json_t *array, json_t *value) {
    if (json_array_append_new(array, value) != 0) {
        json->failed = true;
    }
}

/* JSON has no infinities and no NaN. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

void wn_json_append_number(struct wn_json *json, json_t *array, double value) {
    wn_json_append(json, array, number(value));
}

void wn_json_put_integer(struct wn_json *json, json_t *object, const char *key, int64_t value) {
    wn_json_put(json, object, key, json_integer(value));
}

void wn_json_put_number(struct wn_json *json, json_t *object, const char *key, double value) {
    wn_json_put(json, object, key, number(value));
}

void wn_json_put_measured(struct wn_json *json, json_t *object, const char *key, int64_t value) {
    wn_json_put(json, object, key, value >= 0 ? json_integer(value) : json_null());
}

void wn_json_put_rate(struct wn_json *json, json_t *object, const char *key, int64_t n,
                      double seconds) {
    wn_json_put_number(json, object, key, n > 0 && seconds > 0 ? (double)n / seconds : NAN);
}

void wn_json_put_text(struct wn_json *json, json_t *object, const char *key, const char *text,
                      size_t n_bytes) {
    struct wn_utf8_stream utf8 = {0};
    char *clean = malloc(WN_UTF8_ROOM(n_bytes) + 3);
    if (clean == NULL) {
        json->failed = true;
        return;
    }
    size_t n_clean = wn_utf8_push(&utf8, text, n_bytes, clean);
    n_clean += wn_utf8_finish(&utf8, clean + n_clean);
    wn_json_put(json, object, key, json_stringn(clean, n_clean));
    free(clean);
}

void wn_json_put_string(struct wn_json *json, json_t *object, const char *key, const char *text) {
    if (text == NULL) {
        wn_json_put(json, object, key, json_null());
    } else {
        wn_json_put_text(json, object, key, text, strlen(text));
    }
}

/* ---- output ---- */

json_t *wn_json_finish(const struct wn_json *json, json_t *root) {
    if (json->failed) {
        json_decref(root);
        return NULL;
    }
    return root;
}

wn_status wn_json_text(struct wn_json *json, json_t *root, char **out, struct wn_error *err) {
    char *text = json->failed ? NULL : json_dumps(root, JSON_REAL_PRECISION(9));
    json_decref(root);
    if (text == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for a text of JSON");
    }
    *out = text;
    return WN_OK;
}

wn_status wn_json_print(struct wn_json *json, json_t *root, FILE *out, struct wn_error *err) {
    wn_status status = WN_OK;
    if (json->failed) {
        status = wn_error_set(err, WN_E_MEMORY, "out of memory for the JSON output");
    } else if (json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) != 0 ||
               fputc('\n', out) == EOF) {
        status = wn_error_set(err, WN_E_IO, "cannot write the JSON output (is the disk full?)");
    }
    json_decref(root);
    return status;
}
