/* SPDX-License-Identifier: MIT */
/* Apart from the races, so that results are read without an engine. */
#include "eval/race.h"

const char *wn_peer_name(enum wn_peer peer) {
    static const char *const names[WN_PEER_COUNT] = {"flash", "plain", "q8_0"};
    return names[peer];
}
