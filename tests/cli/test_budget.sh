#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Budgets that a cache keeps to while a prompt is read, and while text is written: `run`, `compress`,
# `ask` and `chat`.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

data=${WN_TEST_DATA:-$(dirname "$0")/..}
head -c 1500 "$data/../benchmarks/texts/narrative.txt" >"$work/text"
question=(-t 1 -b 64 -f "$work/text" -p "What is the river called?")

# ---- while a prompt is read: what is left is kept ----
run 0 run "${question[@]}" -n 4 --prefill-budget 120 --json
json 'd["prefill_budget"]["per_head"] == 120 and d["prefill_budget"]["slack"] == 64'
json 'd["prefill_budget"]["compressions"] >= 3'
json '120 < d["prefill_budget"]["peak_per_head"] <= 184'
json 'd["answers"][0]["decode_budget"] is None'
json '300 < d["answers"][0]["compression"]["prompt_tokens"] < 500'
json 'd["answers"][0]["compression"]["kept_per_head_mean"] <= 120.5'
json 'd["answers"][0]["compression"]["kept_per_head_mean"] > 90'
json 'd["answers"][0]["compression"]["entries_before"] ==
      90 * d["answers"][0]["compression"]["prompt_tokens"]'

# ---- and with --keep compressed further, to a share of the text ----
run 0 run "${question[@]}" -n 60 --prefill-budget 120 --keep 10% --decode-budget 40 \
    --budget-slack 8 --policy min-h --json
json '36 <= d["answers"][0]["compression"]["kept_per_head_mean"] <= 40'
json 'd["answers"][0]["decode_budget"]["per_head"] == 40'
json 'd["answers"][0]["decode_budget"]["slack"] == 8'
json 'd["answers"][0]["decode_budget"]["compressions"] >= 3'
json '40 < d["answers"][0]["decode_budget"]["peak_per_head"] <= 49'

export WINNOW_MODEL=$tiny_model

# ---- while it answers, for several questions, in words ----
run 0 run "${question[@]}" -p "Who is it about?" -n 40 --decode-budget 60 --keep 20%
says '^budget +while answering 60 entries a head \+ 32, compressed again [0-9]+ times? in [0-9.]+ s, at most [0-9]+ held$'
run 0 run "${question[@]}" -p "Who is it about?" -n 40 --decode-budget 60 --keep 20% --json
json 'd["answered_at_once"] == 2'
json 'all(a["decode_budget"]["per_head"] == 60 for a in d["answers"])'
json 'all(0 < a["decode_budget"]["peak_per_head"] <= 93 for a in d["answers"])'
run 0 compress -t 1 -b 64 -f "$work/text" --prefill-budget 120 -o "$work/text.wkv"
says '^policy +foresight, keep 100%'
says '^budget +while reading 120 entries a head \+ 64, compressed again [0-9]+ times in [0-9.]+ s, at most 1[0-8][0-9] held$'
run 0 ask "$work/text.wkv" -t 1 -p "What is the river called?" -n 40 --decode-budget 50 --json
json 'd["decode_budget"]["per_head"] == 50 and d["decode_budget"]["compressions"] >= 1'
json 'd["cache"]["kept_share"] < 0.5'

# ---- prompts longer than the context are read under a budget alone ----
long=(-t 1 -c 300 -f "$work/text") # in steps of more than half of it
refused 1 'the prompt is longer than the context' run "${long[@]}" -p "Who is it about?" -n 4
run 0 run "${long[@]}" -p "Who is it about?" -p "What is the river called?" -n 12 \
    --prefill-budget 100 --keep 60 --json
json 'd["settings"]["ctx_size"] == 300'
json 'all(300 < a["compression"]["prompt_tokens"] < 500 for a in d["answers"])'
json 'all(40 <= a["compression"]["kept_per_head_mean"] <= 60 for a in d["answers"])'
json 'd["prefill_budget"]["rebased"] >= 1 and d["prefill_budget"]["peak_per_head"] <= 300'
json 'all(a["decode_budget"]["per_head"] == 100 for a in d["answers"])'
run 0 compress "${long[@]}" --prefill-budget 100 -o "$work/long.wkv"
says '^budget .*positions re-based at [0-9]+ tokens'
run 0 ask "$work/long.wkv" -t 1 -c 300 -p "What is the river called?" -n 8
says '^positions +re-based to 150$'
says '^loaded +[0-9]+ entries per head of (364|401) tokens in '
says_not 'is cut to'
refused 1 'no room for a rehearsal' compress "${long[@]}" --policy rehearsal --prefill-budget 100 \
    -o "$work/none.wkv"

# ---- questions answered together each keep to it, beyond the context ----
run 0 ask "$work/text.wkv" -t 1 -p "What is the river called?" -p "Who is it about?" --json \
    -c 500 -n 200 --decode-budget 50
json 'd["answered_at_once"] == 2 and d["settings"]["ctx_size"] == 500'
json 'all(a["stop"] in ("end", "limit") for a in d["answers"])'
json 'd["decode_budget"]["compressions"] >= 2'
says_not 'context'

# ---- a conversation outlasts its context ----
printf 'Tell a tale.\nGo on.\nGo on.\nGo on.\n/save %s\n/undo\n/compress 50%%\nGo on.\n' \
    "$work/talk.wkv" >"$work/lines"
run 0 chat -t 1 --temp 0 -n 60 -c 192 --decode-budget 80 --budget head <"$work/lines"
says '^winnow: compressed: [0-9]+ entries per head of [0-9]+, KV cache '
says '^turns +4, [0-9]+ tokens in a context of 192$'
says '^budget +80 entries a head \+ 32, compressed again [0-9]+ times in [0-9.]+ s, at most 11[0-9] held; positions re-based at [0-9]+ tokens'
[ "$(grep -c '^> ' "$work/out")" -eq 5 ] || fail "not all turns were answered"
printf 'Go on.\n/stats\n' >"$work/lines"
run 0 chat -t 1 --temp 0 -n 40 -c 192 --decode-budget 80 --budget head --load "$work/talk.wkv" \
    <"$work/lines"
says '^winnow: loaded 4 turns, '
says '^turns +5, '

# ---- a document longer than the budget is compressed to it ----
printf 'What is the river called?\n/stats\n' >"$work/lines"
run 0 chat -t 1 --temp 0 -n 8 -f "$work/text" --decode-budget 100 <"$work/lines"
says '^winnow: the document is compressed: 100 entries per head of [0-9]+ tokens$'
finish
