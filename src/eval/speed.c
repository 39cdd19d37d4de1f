/* SPDX-License-Identifier: MIT */
#include "eval/speed.h"

#include "core/clock.h"
#include "eval/bandwidth.h"
#include "eval/json.h"

#include <stdlib.h>
#include <string.h>

/* Several times as large as the caches of a machine with few cores. */
enum { BANDWIDTH_BYTES = 256 << 20 };
enum { N_BATCH = 512 };
/* Contestants of reading: llama.cpp's, a session that is just fed, and one that is observed. */
enum { FULL = WN_PEER_COUNT, OBSERVED, N_READERS };

/* ---- what is missing ---- */

static bool is_missing(const struct wn_speed *speed, const struct wn_speed_race *race,
                       double keep) {
    struct wn_speed_cell cell;
    return wn_results_find(speed->results, wn_speed_cell_name(race, keep, &cell)) == NULL;
}

static int n_decodes_missing(const struct wn_speed *speed, const struct wn_speed_race *race) {
    int n = 0;
    for (int k = 0; k < speed->plan->n_keeps; k++) {
        n += is_missing(speed, race, speed->plan->keep[k]);
    }
    return n;
}

int wn_speed_n_missing(const struct wn_speed *speed) {
    int n = 0;
    for (int i = 0; i < wn_speed_n_races(speed->plan); i++) {
        const struct wn_speed_race race = wn_speed_race_at(speed->plan, i);
        if (wn_shard_takes(&speed->plan->shard, i)) {
            n += is_missing(speed, &race, 0) + n_decodes_missing(speed, &race);
        }
    }
    return n;
}

/* ---- a race ---- */

struct running {
    const struct wn_speed *speed;
    struct wn_speed_race race;
    struct wn_engine *engine;
    const void *words; /* [BANDWIDTH_BYTES] */
    struct wn_policy policy;
    struct wn_native *native[WN_PEER_COUNT];
    struct wn_session *full, *observed;
    double reading[N_READERS][WN_MAX_ROUNDS]; /* seconds */
    int64_t resident[N_READERS];
    int64_t n_done, n_total; /* tokens, of all races */
};

/* A share kept, and what came of it. */
struct decoding {
    struct running *running;
    double keep;
    struct wn_session *session; /* NULL: the full one */
    struct wn_compress_report report;
    int64_t resident;
    double seconds[WN_MAX_ROUNDS];
};

static bool pass_progress(void *user, int64_t n_done, int64_t n_total) {
    const struct running *running = user;
    const struct wn_speed *speed = running->speed;
    (void)n_total;
    return speed->on_progress == NULL ||
           speed->on_progress(speed->user, running->n_done + n_done, running->n_total);
}

/* Counts n tokens as fed; stops where that is asked for. */
static wn_status count(struct running *running, int64_t n, struct wn_error *err) {
    running->n_done += n;
    return pass_progress(running, 0, 0) ? WN_OK
                                        : wn_error_set(err, WN_E_ABORTED, "stopped on request");
}

/* The peer with a cache of Q8_0 stays away where llama.cpp has none: blocks of 32 must fit the heads. */
static wn_status open_peer(struct running *running, enum wn_peer peer, struct wn_error *err) {
    struct wn_error why = {0};
    const wn_status status =
        wn_peer_open(running->speed->model, peer, running->race.length + WN_SPEED_DECODE_TOKENS,
                     N_BATCH, running->race.threads, &running->native[peer], &why);
    if (status == WN_OK || (peer == WN_PEER_Q8_0 && status == WN_E_BACKEND)) {
        return WN_OK;
    }
    return wn_error_set(err, status, "%s", why.message);
}

static wn_status open_reader(struct running *running, int reader, struct wn_error *err) {
    if (reader < WN_PEER_COUNT) {
        return open_peer(running, (enum wn_peer)reader, err);
    }
    if (reader == FULL) {
        return wn_session_create(running->engine, &running->full, err);
    }
    wn_status status = wn_session_create(running->engine, &running->observed, err);
    return status == WN_OK
               ? wn_session_observe(running->observed, &running->policy, running->race.length, err)
               : status;
}

static void close_reader(struct running *running, int reader) {
    if (reader < WN_PEER_COUNT) {
        wn_native_free(running->native[reader]);
        running->native[reader] = NULL;
        return;
    }
    struct wn_session **session = reader == FULL ? &running->full : &running->observed;
    wn_session_free(*session);
    *session = NULL;
    wn_engine_trim(running->engine);
}

static wn_status read_text(struct running *running, int reader, int round, struct wn_error *err) {
    const struct wn_speed *speed = running->speed;
    const struct wn_feed_options options = {.on_progress = pass_progress, .user = running};
    double *seconds = &running->reading[reader][round];
    const int64_t n = running->race.length, before = speed->resident_bytes();
    wn_status status = open_reader(running, reader, err);
    if (status == WN_OK && reader < WN_PEER_COUNT && running->native[reader] != NULL) {
        status =
            wn_race_feed_native(running->native[reader], speed->tokens, n, &options, seconds, err);
    } else if (status == WN_OK && reader >= FULL) {
        status = wn_race_feed_session(reader == FULL ? running->full : running->observed,
                                      speed->tokens, n, &options, seconds, err);
    }
    running->resident[reader] = speed->resident_bytes() - before;
    return status == WN_OK ? count(running, n, err) : status;
}

/* All take turns; after the last round they stay, to decode. */
static wn_status read_texts(struct running *running, int n_rounds, struct wn_error *err) {
    wn_status status = WN_OK;
    for (int round = 0; round < n_rounds; round++) {
        for (int reader = 0; status == WN_OK && reader < N_READERS; reader++) {
            close_reader(running, reader);
            status = read_text(running, reader, round, err);
        }
    }
    return status;
}

static json_t *numbers(struct wn_json *json, const double *values, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++) {
        wn_json_append(json, array, json_real(values[i]));
    }
    return array;
}

static void put_race(struct wn_json *json, json_t *values, const struct wn_speed_race *race) {
    wn_json_put_integer(json, values, "threads", race->threads);
    wn_json_put_string(json, values, "type", wn_type_name(race->type));
    wn_json_put_integer(json, values, "length", race->length);
}

/* null for a peer that stayed away. */
static void put_peers(struct wn_json *json, json_t *values, const struct running *running,
                      double (*seconds)[WN_MAX_ROUNDS]) {
    for (int peer = 0; peer < WN_PEER_COUNT; peer++) {
        char key[32];
        snprintf(key, sizeof key, "llama_%s_seconds", wn_peer_name((enum wn_peer)peer));
        wn_json_put(json, values, key,
                    running->native[peer] != NULL
                        ? numbers(json, seconds[peer], running->speed->plan->n_rounds)
                        : json_null());
    }
}

static wn_status add(const struct running *running, double keep, struct wn_json *json,
                     json_t *values, struct wn_error *err) {
    struct wn_speed_cell cell;
    return wn_results_add(running->speed->results, wn_speed_cell_name(&running->race, keep, &cell),
                          wn_json_finish(json, values), err);
}

static wn_status add_prefill(struct running *running, struct wn_error *err) {
    const int n = running->speed->plan->n_rounds;
    struct wn_json json = {0};
    json_t *values = json_object();
    put_race(&json, values, &running->race);
    wn_json_put(&json, values, "seconds", numbers(&json, running->reading[FULL], n));
    wn_json_put(&json, values, "observed_seconds", numbers(&json, running->reading[OBSERVED], n));
    put_peers(&json, values, running, running->reading);
    wn_json_put_string(&json, values, "policy", wn_score_name(running->policy.score));
    wn_json_put_integer(&json, values, "resident_bytes", running->resident[FULL]);
    for (int peer = 0; peer < WN_PEER_COUNT; peer++) {
        char key[40];
        snprintf(key, sizeof key, "llama_%s_resident_bytes", wn_peer_name((enum wn_peer)peer));
        wn_json_put_integer(&json, values, key, running->resident[peer]);
    }
    return add(running, 0, &json, values, err);
}

/* ---- decoding ---- */

static wn_status prepare_decoding(struct decoding *decoding, struct wn_error *err) {
    struct running *running = decoding->running;
    const struct wn_speed *speed = running->speed;
    if (decoding->keep >= 1) {
        decoding->resident = running->resident[FULL];
        return WN_OK;
    }
    struct wn_policy policy = running->policy;
    policy.keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = decoding->keep};
    const int64_t before = speed->resident_bytes();
    wn_status status = wn_session_fork(running->observed, &decoding->session, err);
    if (status == WN_OK) {
        status = wn_session_compress(decoding->session, &policy, &decoding->report, err);
    }
    decoding->resident = speed->resident_bytes() - before;
    return status;
}

static wn_status decode_round(struct running *running, struct decoding *decodings, int n_decodings,
                              double (*peers)[WN_MAX_ROUNDS], double *bandwidth, int round,
                              struct wn_error *err) {
    const int32_t *tokens = running->speed->tokens + running->race.length;
    const int n = WN_SPEED_DECODE_TOKENS;
    wn_status status = WN_OK;
    for (int peer = 0; status == WN_OK && peer < WN_PEER_COUNT; peer++) {
        if (running->native[peer] != NULL) {
            status =
                wn_race_decode_native(running->native[peer], tokens, n, &peers[peer][round], err);
        }
        status = status == WN_OK ? count(running, n, err) : status;
    }
    for (int i = 0; status == WN_OK && i < n_decodings; i++) {
        struct wn_session *session = decodings[i].session;
        status = wn_race_decode_session(session != NULL ? session : running->full, tokens, n,
                                        &decodings[i].seconds[round], err);
        status = status == WN_OK ? count(running, n, err) : status;
    }
    bandwidth[round] = wn_read_bandwidth(running->words, BANDWIDTH_BYTES, running->race.threads);
    return status;
}

static wn_status add_decoding(const struct decoding *decoding, double (*peers)[WN_MAX_ROUNDS],
                              const double *bandwidth, struct wn_error *err) {
    const struct running *running = decoding->running;
    const int n = running->speed->plan->n_rounds;
    struct wn_model_info model;
    struct wn_session_usage usage;
    struct wn_json json = {0};
    json_t *values = json_object();
    wn_model_info(running->speed->model, &model);
    wn_session_usage(decoding->session != NULL ? decoding->session : running->full, &usage);
    put_race(&json, values, &running->race);
    wn_json_put_number(&json, values, "keep", decoding->keep);
    wn_json_put_integer(&json, values, "tokens", WN_SPEED_DECODE_TOKENS);
    wn_json_put(&json, values, "seconds", numbers(&json, decoding->seconds, n));
    put_peers(&json, values, running, peers);
    wn_json_put(&json, values, "bandwidth_bytes_per_second", numbers(&json, bandwidth, n));
    wn_json_put_integer(&json, values, "weight_bytes", model.file_bytes);
    wn_json_put_integer(&json, values, "kv_bytes", usage.kv_bytes);
    wn_json_put_integer(&json, values, "slack_bytes", usage.slack_bytes);
    wn_json_put_integer(&json, values, "resident_bytes", decoding->resident);
    wn_json_put_integer(&json, values, "entries", usage.n_entries);
    wn_json_put_number(&json, values, "compress_seconds", decoding->report.seconds);
    return add(running, decoding->keep, &json, values, err);
}

static wn_status decode(struct running *running, struct wn_error *err) {
    const struct wn_speed_plan *plan = running->speed->plan;
    struct decoding *decodings = calloc(WN_SPEED_KEEPS_MAX, sizeof *decodings);
    double(*peers)[WN_MAX_ROUNDS] = calloc(WN_PEER_COUNT, sizeof *peers);
    double bandwidth[WN_MAX_ROUNDS];
    int n = 0;
    wn_status status = decodings != NULL && peers != NULL
                           ? WN_OK
                           : wn_error_set(err, WN_E_MEMORY, "out of memory");
    for (int k = 0; status == WN_OK && k < plan->n_keeps; k++) {
        if (is_missing(running->speed, &running->race, plan->keep[k])) {
            decodings[n] = (struct decoding){.running = running, .keep = plan->keep[k]};
            status = prepare_decoding(&decodings[n++], err);
        }
    }
    /* A first round warms caches and is overwritten. */
    for (int round = -1; status == WN_OK && n > 0 && round < plan->n_rounds; round++) {
        status = decode_round(running, decodings, n, peers, bandwidth, round < 0 ? 0 : round, err);
    }
    for (int i = 0; i < n; i++) {
        status = status == WN_OK ? add_decoding(&decodings[i], peers, bandwidth, err) : status;
        wn_session_free(decodings[i].session);
    }
    free(decodings);
    free(peers);
    return status;
}

/* ---- all races ---- */

/* Tokens that the missing cells of a race are fed for. */
static int64_t n_race_tokens(const struct wn_speed *speed, const struct wn_speed_race *race) {
    const int n_decodes = n_decodes_missing(speed, race), n_rounds = speed->plan->n_rounds;
    const int n_readings = is_missing(speed, race, 0) ? n_rounds : n_decodes > 0;
    const int n_decoders = n_decodes > 0 ? WN_PEER_COUNT + n_decodes : 0;
    return n_readings * N_READERS * race->length +
           (int64_t)(n_rounds + 1) * n_decoders * WN_SPEED_DECODE_TOKENS;
}

static wn_status run_race(struct running *running, struct wn_error *err) {
    const struct wn_speed *speed = running->speed;
    const bool reads = is_missing(speed, &running->race, 0);
    if (speed->on_race != NULL) {
        speed->on_race(speed->user, &running->race);
    }
    wn_status status = read_texts(running, reads ? speed->plan->n_rounds : 1, err);
    if (status == WN_OK && reads) {
        status = add_prefill(running, err);
    }
    if (status == WN_OK) {
        status = decode(running, err);
    }
    for (int reader = 0; reader < N_READERS; reader++) {
        close_reader(running, reader);
    }
    return status;
}

/* The default policy, or, of models that it does not suit, the best that needs nothing of them. */
static wn_status choose_policy(struct running *running, struct wn_error *err) {
    struct wn_session *session = NULL;
    wn_status status = wn_session_create(running->engine, &session, err);
    wn_policy_default(&running->policy, WN_SCORE_FORESIGHT);
    if (status == WN_OK &&
        wn_session_observe(session, &running->policy, WN_SPEED_LENGTH_MIN, NULL) == WN_E_MODEL) {
        wn_policy_default(&running->policy, WN_SCORE_MIN_H);
    }
    wn_session_free(session);
    return status;
}

/* An engine for a race, kept where the one before had the same. */
static wn_status make_engine(struct running *running, const struct wn_speed_race *race,
                             struct wn_error *err) {
    const struct wn_speed *speed = running->speed;
    if (running->engine != NULL && running->race.threads == race->threads &&
        running->race.type == race->type) {
        return WN_OK;
    }
    struct wn_engine_options options;
    wn_engine_options_default(&options);
    options.n_threads = race->threads;
    options.n_batch = N_BATCH;
    options.k_type = options.v_type = (enum wn_type)race->type;
    options.kernels = speed->kernels != NULL ? speed->kernels : options.kernels;
    for (int i = 0; i < speed->plan->n_lengths; i++) {
        const int64_t needed = speed->plan->length[i] + WN_SPEED_DECODE_TOKENS;
        options.n_ctx = needed > options.n_ctx ? needed : options.n_ctx;
    }
    wn_engine_free(running->engine);
    running->engine = NULL;
    wn_status status = wn_engine_create(speed->model, &options, &running->engine, err);
    return status == WN_OK ? choose_policy(running, err) : status;
}

static wn_status run_races(struct running *running, struct wn_error *err) {
    const struct wn_speed *speed = running->speed;
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < wn_speed_n_races(speed->plan); i++) {
        const struct wn_speed_race race = wn_speed_race_at(speed->plan, i);
        if (!wn_shard_takes(&speed->plan->shard, i) || n_race_tokens(speed, &race) == 0) {
            continue;
        }
        status = make_engine(running, &race, err);
        running->race = race;
        status = status == WN_OK ? run_race(running, err) : status;
    }
    wn_engine_free(running->engine);
    return status;
}

wn_status wn_speed_measure(const struct wn_speed *speed, struct wn_error *err) {
    if (wn_speed_n_missing(speed) == 0) {
        return WN_OK;
    }
    struct running *running = calloc(1, sizeof *running);
    void *words = malloc(BANDWIDTH_BYTES);
    wn_status status = WN_OK;
    if (running == NULL || words == NULL) {
        status = wn_error_set(err, WN_E_MEMORY, "out of memory for the bandwidth's buffer");
    } else {
        memset(words, 1, BANDWIDTH_BYTES);
        running->speed = speed;
        running->words = words;
        for (int i = 0; i < wn_speed_n_races(speed->plan); i++) {
            const struct wn_speed_race race = wn_speed_race_at(speed->plan, i);
            running->n_total +=
                wn_shard_takes(&speed->plan->shard, i) ? n_race_tokens(speed, &race) : 0;
        }
        status = run_races(running, err);
    }
    free(words);
    free(running);
    return status;
}
