#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `winnow run --compare`: both answers, and figures that agree with each other.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

cat >"$work/text" <<'TEXT'
The lamp was lit at dusk by Orla Fenwick, who had climbed the hundred and twelve steps every evening
for nineteen years. She carried the oil in a copper can and counted aloud, so that her daughter
below would know how far up she was. On the night of the gale she counted to eighty, stopped, and
began again at one, and nobody ever learned why.
TEXT
ask=(run -t 1 -f "$work/text" -p "Who lit the lamp?" -n 10 --compare)

run 0 "${ask[@]}" --keep 40%
[[ $out == "[compressed cache]"*"[full cache]"* ]] || fail "the two answers are not named"
says '^ +compressed +full cache$'
says '^KV cache +[0-9.]+ [KM]iB +[0-9.]+ [KM]iB$'
says '^resident memory +[0-9.]+ MiB +[0-9.]+ MiB$'
says '^decode speed +[0-9.]+ tok/s +[0-9.]+ tok/s$'
says '^answer tokens +[0-9]+ +[0-9]+$'
says '^KL\(full \|\| compressed\) [0-9.]+ nat, mean over [0-9]+ tokens of the full answer; '
says 'same most likely token at [0-9.]+ %$'

run 0 "${ask[@]}" --keep 40% --json
# The first token of an answer comes from the exact prompt on both sides and is not compared.
json 'd["answers"][0]["comparison"]["tokens"] == d["answers"][0]["full"]["tokens"] - 1' \
    'd["answers"][0]["comparison"]["kl_mean_nat"] > 0' \
    '0 <= d["answers"][0]["comparison"]["same_top_share"] <= 1'
full=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["answers"][0]["full"]["text"])' "$work/out")

# The full answer is the one of a run that compresses nothing.
run 0 run -t 1 -f "$work/text" -p "Who lit the lamp?" -n 10 --policy full -q
[ "$out" = "$full" ] || fail "the full answer differs from the uncompressed run's"

export WINNOW_MODEL=$tiny_model

# Nothing evicted: both sides are one, and their distance is rounding.
run 0 "${ask[@]}" --keep 100% --json
json 'd["answers"][0]["text"] == d["answers"][0]["full"]["text"]' \
    'd["answers"][0]["comparison"]["kl_mean_nat"] < 1e-9' \
    'd["answers"][0]["comparison"]["same_top_share"] == 1'

# A smaller share is further away; tokens beyond one chunk of the comparison are all counted.
run 0 run -t 1 -f "$work/text" -p "Tell this again." -n 40 --compare --keep 60% --select topk --json
json 'd["answers"][0]["comparison"]["tokens"] == d["answers"][0]["full"]["tokens"] - 1 > 16'
kl=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["answers"][0]["comparison"]["kl_mean_nat"])' "$work/out")
run 0 run -t 1 -f "$work/text" -p "Tell this again." -n 40 --compare --keep 10% --select topk --json
json "d['answers'][0]['comparison']['kl_mean_nat'] > $kl"

run 0 "${ask[@]}" -p "How many steps were there?" --json
json 'len(d["answers"]) == 2' \
    'all(a["comparison"]["tokens"] == a["full"]["tokens"] - 1 for a in d["answers"])' \
    'd["memory"]["resident_after_bytes"] > 0'

run 0 run -t 1 -f "$work/text" -p "Who lit the lamp?" -n 1 --compare --json
json 'd["answers"][0]["comparison"]["tokens"] == 0 and d["answers"][0]["comparison"]["kl_mean_nat"] is None'
finish
