/* SPDX-License-Identifier: MIT */
#include "cli/answer_options.h"

#define FIELD(name) .offset = offsetof(struct wn_answer_options, name)

const struct wn_flag wn_answer_flags[WN_ANSWER_N_FLAGS] = {
    {.name = "predict",
     .short_name = "n",
     .value = "N",
     .section = WN_SECTION_ANSWER,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_predict),
     .min = WN_ANSWER_UNTIL_END,
     .max = 1000000,
     .preset = "256",
     .help = "Most tokens of an answer; -1: until the model ends it or the context is full."},
    {.name = "temp",
     .value = "X",
     .section = WN_SECTION_ANSWER,
     .kind = WN_FLAG_NUMBER,
     FIELD(temperature),
     .min = 0,
     .max = 100,
     .preset = "0",
     .help = "Temperature; 0 always takes the most likely token."},
    {.name = "top-k",
     .value = "N",
     .section = WN_SECTION_ANSWER,
     .kind = WN_FLAG_INTEGER,
     FIELD(top_k),
     .min = 0,
     .max = 1000000,
     .preset = "40",
     .help = "Sample among the N most likely tokens; 0: no such limit."},
    {.name = "top-p",
     .value = "X",
     .section = WN_SECTION_ANSWER,
     .kind = WN_FLAG_NUMBER,
     FIELD(top_p),
     .min = 0,
     .max = 1,
     .above_min = true,
     .preset = "0.95",
     .help =
         "Sample among the most likely tokens that have this share of the probability together."},
    {.name = "min-p",
     .value = "X",
     .section = WN_SECTION_ANSWER,
     .kind = WN_FLAG_NUMBER,
     FIELD(min_p),
     .min = 0,
     .max = 1,
     .preset = "0.05",
     .help = "Sample among tokens at least this likely, relative to the most likely one."},
    {.name = "seed",
     .value = "N",
     .section = WN_SECTION_ANSWER,
     .kind = WN_FLAG_INTEGER,
     FIELD(seed),
     .min = 0,
     .max = 4294967295.0,
     .preset = "0",
     .help = "Seed of the tokens that are sampled; each answer begins with it."},
};

struct wn_answer_limit wn_answer_limit(const struct wn_answer_options *options, int64_t n_left) {
    const bool is_context =
        options->n_predict == WN_ANSWER_UNTIL_END || options->n_predict > n_left;
    return (struct wn_answer_limit){is_context ? n_left : options->n_predict, is_context};
}
