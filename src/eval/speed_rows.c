/* SPDX-License-Identifier: MIT */
/* What the cells of the speed benchmark come to. The file they may come from is not trusted. */
#include "eval/speed.h"

#include <math.h>

/* The rounds' seconds; 0 when they are not there, too many or not positive. */
static int read_rounds(const json_t *values, const char *key, double *rounds) {
    const json_t *array = json_object_get(values, key);
    const size_t n = json_array_size(array);
    if (n < 1 || n > WN_MAX_ROUNDS) {
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        rounds[i] = json_number_value(json_array_get(array, i));
        if (!(rounds[i] > 0) || !isfinite(rounds[i])) {
            return 0;
        }
    }
    return (int)n;
}

/* The speeds of llama.cpp's ways, n_tokens in as many rounds as ours; NaN of a Q8_0 that stayed away. */
static bool read_peers(const json_t *values, int n, double n_tokens,
                       double (*rounds)[WN_MAX_ROUNDS], double *speed) {
    for (int peer = 0; peer < WN_PEER_COUNT; peer++) {
        char key[32];
        snprintf(key, sizeof key, "llama_%s_seconds", wn_peer_name((enum wn_peer)peer));
        if (peer == WN_PEER_Q8_0 && json_is_null(json_object_get(values, key))) {
            speed[peer] = NAN;
        } else if (read_rounds(values, key, rounds[peer]) != n) {
            return false;
        } else {
            speed[peer] = n_tokens / wn_median(rounds[peer], n);
        }
    }
    return true;
}

static bool read_prefill(const json_t *values, const json_t *decoded, struct wn_speed_row *row) {
    double seconds[WN_MAX_ROUNDS], peers[WN_PEER_COUNT][WN_MAX_ROUNDS];
    const bool is_full = row->keep >= 1;
    const int n = read_rounds(values, is_full ? "seconds" : "observed_seconds", seconds);
    const double length = (double)row->race.length;
    if (n == 0 || !read_peers(values, n, length, peers, row->prefill_peer)) {
        return false;
    }
    const double compress =
        is_full ? 0 : json_number_value(json_object_get(decoded, "compress_seconds"));
    if (!(compress >= 0) || !isfinite(compress)) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        seconds[i] += compress;
    }
    row->prefill = length / wn_median(seconds, n);
    row->prefill_spread = wn_spread(seconds, n);
    row->prefill_ratio = wn_median_ratio(peers[WN_PEER_FLASH], seconds, n);
    return true;
}

static bool read_decode(const json_t *values, struct wn_speed_row *row) {
    double seconds[WN_MAX_ROUNDS], peers[WN_PEER_COUNT][WN_MAX_ROUNDS], faster[WN_MAX_ROUNDS];
    double bandwidth[WN_MAX_ROUNDS];
    const int n = read_rounds(values, "seconds", seconds);
    const double n_tokens = json_number_value(json_object_get(values, "tokens"));
    if (n == 0 || !(n_tokens > 0) || !read_peers(values, n, n_tokens, peers, row->decode_peer) ||
        read_rounds(values, "bandwidth_bytes_per_second", bandwidth) != n) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        faster[i] = fmin(peers[WN_PEER_FLASH][i], peers[WN_PEER_PLAIN][i]);
    }
    row->decode = n_tokens / wn_median(seconds, n);
    row->decode_spread = wn_spread(seconds, n);
    row->decode_ratio = wn_median_ratio(faster, seconds, n);
    row->kv_bytes = json_integer_value(json_object_get(values, "kv_bytes"));
    row->resident_bytes = json_integer_value(json_object_get(values, "resident_bytes"));
    row->n_entries = json_integer_value(json_object_get(values, "entries"));
    row->bandwidth = wn_median(bandwidth, n);
    const double weights = json_number_value(json_object_get(values, "weight_bytes"));
    row->read_share = row->decode * (weights + (double)row->kv_bytes) / row->bandwidth;
    return true;
}

bool wn_speed_row_read(const struct wn_results *results, const struct wn_speed_race *race,
                       double keep, struct wn_speed_row *row) {
    struct wn_speed_cell cell;
    const json_t *read = wn_results_find(results, wn_speed_cell_name(race, 0, &cell));
    const json_t *decoded = wn_results_find(results, wn_speed_cell_name(race, keep, &cell));
    *row = (struct wn_speed_row){.race = *race, .keep = keep};
    return read != NULL && decoded != NULL && read_decode(decoded, row) &&
           read_prefill(read, decoded, row);
}
