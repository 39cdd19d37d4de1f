/* SPDX-License-Identifier: MIT */
#include "eval/plain_text.h"

#include <stdbool.h>

size_t wn_control_bytes(const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] != '\0' && (c[0] < ' ' || c[0] == 0x7f)) {
        return 1;
    }
    /* U+0080 to U+009F, and U+061C. */
    if ((c[0] == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f) || (c[0] == 0xd8 && c[1] == 0x9c)) {
        return 2;
    }
    /* U+200E, U+200F and U+2028 to U+202E; U+2066 to U+2069. */
    const bool is_mark = c[0] == 0xe2 && c[1] == 0x80 &&
                         (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae));
    const bool isolates = c[0] == 0xe2 && c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9;
    return is_mark || isolates ? 3 : 0;
}

void wn_print_plain(const char *text, FILE *out) {
    while (*text != '\0') {
        const size_t n = wn_control_bytes(text);
        fputc(n > 0 ? ' ' : *text, out);
        text += n > 0 ? n : 1;
    }
}
