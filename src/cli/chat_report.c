/* SPDX-License-Identifier: MIT */
#include "cli/chat.h"
#include "cli/format.h"
#include "cli/memory.h"

#include <math.h>

static void print_entries(const struct wn_session_usage *usage, FILE *out) {
    struct wn_text32 mean, least, most, all, bytes;
    const double per_head = usage->n_heads > 0 ? (double)usage->n_entries / usage->n_heads : 0;
    fprintf(out, "entries    %s per head (%s to %s) of %s: %.1f %%\n",
            wn_format_count((int64_t)llround(per_head), &mean),
            wn_format_count(usage->min_entries, &least), wn_format_count(usage->max_entries, &most),
            wn_format_count(usage->n_tokens, &all),
            usage->n_tokens > 0 ? 100 * per_head / (double)usage->n_tokens : 100.0);
    fprintf(out, "KV cache   %s\n", wn_format_bytes(usage->kv_bytes, &bytes));
}

void wn_chat_print_stats(const struct wn_chat *chat, FILE *out) {
    const struct wn_reading *reading = &chat->reading;
    struct wn_session_usage usage;
    struct wn_text32 count, context, resident, weights, read, decode, n_read, n_answered;
    wn_session_usage(chat->now.session, &usage);
    const int n_turns = chat->n_early_turns + chat->now.n_turns;
    fprintf(out, "turns      %d, %s tokens in a context of %s\n", n_turns,
            wn_format_count(usage.n_tokens, &count), wn_format_count(chat->n_ctx, &context));
    print_entries(&usage, out);
    if (chat->is_endless) {
        struct wn_standing standing = {.budget = chat->standing.budget, .report = chat->now.past};
        wn_standing_add(&standing, chat->now.session);
        wn_standing_print(&standing, "", out);
    } else {
        fputs("budget     none\n", out);
    }
    const int64_t resident_bytes = wn_resident_bytes();
    if (resident_bytes >= 0) {
        fprintf(out, "resident   %s; the model file is %s of it\n",
                wn_format_bytes(resident_bytes, &resident),
                wn_format_bytes(reading->model_info.file_bytes, &weights));
    }
    fprintf(out, "speed      reading %s (%s tokens), replies %s (%s tokens)\n",
            wn_format_rate(reading->n_read, reading->read_seconds, &read),
            wn_format_count(reading->n_read, &n_read),
            wn_format_rate(chat->n_decoded, chat->decode_seconds, &decode),
            wn_format_count(chat->n_answered, &n_answered));
    wn_reading_print_machine(reading, out);
}
