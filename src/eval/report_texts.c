/* SPDX-License-Identifier: MIT */
#include "eval/report_texts.h"

#include <math.h>
#include <string.h>

static bool same_length(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

int wn_report_text_index(struct wn_report *report, struct wn_report_texts *texts,
                         struct wn_report_reader *reader, const char *length) {
    const char *hash = json_string_value(json_object_get(reader->values, "text_hash"));
    const struct wn_report_text_key key = {.name = wn_report_read_word(reader, "text"),
                                           .hash = hash != NULL ? hash : "",
                                           .length = wn_report_read_optional(reader, length)};
    for (int i = 0; i < texts->n; i++) {
        const struct wn_report_text_key *known = &texts->key[i];
        if (strcmp(known->name, key.name) == 0 && strcmp(known->hash, key.hash) == 0 &&
            same_length(known->length, key.length)) {
            return i;
        }
    }
    void *array = texts->key;
    if (!wn_report_make_room(report, &array, texts->n, &texts->room, sizeof *texts->key)) {
        return -1;
    }
    texts->key = array;
    texts->key[texts->n] = key;
    return texts->n++;
}

/* What a text must be told from: others of its name with other lengths, and with other bytes. */
static const char *name_of(struct wn_report *report, const struct wn_report_texts *texts,
                           int text) {
    const struct wn_report_text_key *key = &texts->key[text];
    bool has_lengths = false, has_hashes = false;
    for (int i = 0; i < texts->n; i++) {
        const struct wn_report_text_key *other = &texts->key[i];
        if (strcmp(other->name, key->name) == 0) {
            has_lengths = has_lengths || !same_length(other->length, key->length);
            has_hashes = has_hashes || strcmp(other->hash, key->hash) != 0;
        }
    }
    const char *length = has_lengths && !isnan(key->length)
                             ? wn_report_text(report, ", %.0f tokens", key->length)
                             : "";
    const char *hash =
        has_hashes && key->hash[0] != '\0' ? wn_report_text(report, " (#%.6s)", key->hash) : "";
    return wn_report_text(report, "%s%s%s", key->name, length, hash);
}

void wn_report_texts_name(struct wn_report *report, struct wn_report_texts *texts) {
    texts->name = wn_report_alloc(report, (size_t)texts->n, sizeof *texts->name);
    for (int i = 0; texts->name != NULL && i < texts->n; i++) {
        texts->name[i] = name_of(report, texts, i);
    }
}

const char *wn_report_apart(struct wn_report *report, const struct wn_mean *log_ratio,
                            const char *times) {
    const double end[3] = {exp(log_ratio->mean), exp(log_ratio->mean - log_ratio->half),
                           exp(log_ratio->mean + log_ratio->half)};
    char text[3][WN_REPORT_NUMBER_BYTES];
    return !wn_is_clearly_above_zero(log_ratio)
               ? ", which these texts do not clearly tell apart"
               : wn_report_text(report, ", %s %s on the same text (95 %% interval %s to %s)",
                                wn_report_format(WN_REPORT_FIGURE, end[0], text[0]), times,
                                wn_report_format(WN_REPORT_FIGURE, end[1], text[1]),
                                wn_report_format(WN_REPORT_FIGURE, end[2], text[2]));
}
