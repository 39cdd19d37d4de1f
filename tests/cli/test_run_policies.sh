#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What `winnow run` makes of the flags of a compression: policies, budgets, merging, samples, errors.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
export WINNOW_MODEL=$tiny_model

cat >"$work/text" <<'TEXT'
The harbour master keeps three boats. The red boat is called Wren and carries mail to the islands on
Mondays. The green boat is called Heron and carries salt, rope and lamp oil.
TEXT
ask=(run -t 1 -f "$work/text" -p "What is the red boat called?" -n 12)

# Every policy answers, from exactly as many entries as asked for where entries are not sampled.
for policy in random streaming k-norm v-norm tova snapkv h2o h2o-h h2o-mean exposure min min-c min-h; do
    run 0 "${ask[@]}" --policy "$policy" --select topk --keep 48 --window 16 -n 2 --json
    json 'd["answers"][0]["compression"]["kept_per_head_min"] == 48' \
        'd["answers"][0]["compression"]["kept_per_head_max"] == 48' \
        'd["answers"][0]["compression"]["entries_after"] == 48 * 90' \
        'd["settings"]["policy"] == "'"$policy"'"'
done
for policy in foresight rehearsal; do
    run 0 "${ask[@]}" --policy "$policy" --budget head --keep 48 -n 2 --json
    json 'd["answers"][0]["compression"]["kept_per_head_min"] == 48' \
        'd["answers"][0]["compression"]["kept_per_head_max"] == 48' \
        'd["settings"]["policy"] == "'"$policy"'"'
done
# The one that is used when none is named divides by what heads will need.
run 0 "${ask[@]}" --keep 48 -n 1 --json
json 'd["settings"]["policy"] == d["settings"]["budget"] == "foresight"' \
    'd["settings"]["eta"] == 1.3 and d["settings"]["head_floor"] == 0.1' \
    'd["settings"]["fit"] == "bv" and d["settings"]["ridge"] == 0.1' \
    'd["answers"][0]["compression"]["entries_after"] == 48 * 90' \
    'd["answers"][0]["compression"]["kept_per_head_min"] < 48' \
    'd["prompt"]["rehearse_tokens"] == 0 and d["prompt"]["rehearse_seconds"] == 0'
# Other divisions of the budget keep as many entries in all, but not in each head.
for budget in adaptive adaptive-model; do
    run 0 "${ask[@]}" --policy h2o-mean --budget "$budget" --keep 48 --json -n 1
    json 'd["answers"][0]["compression"]["entries_after"] == 48 * 90' \
        'd["answers"][0]["compression"]["kept_per_head_min"] < 48' \
        'd["answers"][0]["compression"]["kept_per_head_max"] > 48' \
        'd["settings"]["budget"] == "'"$budget"'"'
done
run 0 "${ask[@]}" --policy pyramidkv --window 8 --beta 4 --sink 0 --recent 0 --keep 48 --json -n 1
json 'd["settings"]["budget"] == "pyramid"' \
    'd["answers"][0]["compression"]["kept_per_head_min"] < 48' \
    'd["answers"][0]["compression"]["kept_per_head_max"] > 48'
says_not 'note: --budget pyramid|note: nothing was chosen'
# Where a budget came to something else than was asked for, that is said once for all questions.
run 0 "${ask[@]}" -p "And the green one?" --policy pyramidkv --keep 48 --json -n 1
json 'd["answers"][0]["compression"]["kept_per_head_min"] ==
      d["answers"][0]["compression"]["protected_per_head"] == 48'
says '^winnow: note: --budget pyramid kept the same in every layer \(the smallest budget, k / --beta, '
says '^winnow: note: nothing was chosen by score \(.*; raise --keep or lower --window\)$'
[ "$(grep -c 'note: ' "$work/err")" -eq 2 ] || fail "a note is repeated"
run 0 "${ask[@]}" --policy min-h --budget global --keep 30% --json -n 1
json 'd["answers"][0]["compression"]["kept_per_head_min"] !=
      d["answers"][0]["compression"]["kept_per_head_max"]'

# Merging takes up what would be dropped, and is said.
run 0 "${ask[@]}" --policy h2o --keep 48 --merge 0.5 --json -n 1
json 'd["answers"][0]["compression"]["entries_after"] == 48 * 90' \
    '0 < d["answers"][0]["compression"]["merged"] <=
      d["answers"][0]["compression"]["entries_before"] - 48 * 90' \
    'd["settings"]["merge"] == 0.5 and d["settings"]["merge_value"] == "mean"'
run 0 "${ask[@]}" --policy h2o --keep 48 --merge 0.5 -n 1
says '^policy .*, merge above 0.5 \(key keep, value mean\)$'
says '^merged +[0-9,]+ evicted entries into kept ones$'
run 0 "${ask[@]}" --policy h2o --keep 48 --json -n 1
json 'd["answers"][0]["compression"]["merged"] == 0 and d["settings"]["merge"] is None'

# Weights are for the model's three query heads per KV head.
run 0 "${ask[@]}" --policy h2o --group 0.5,0.3,0.2 --json -n 1
json 'd["settings"]["group_weights"] == [0.5, 0.3, 0.2]'
refused 2 'number of query heads .*group weights' "${ask[@]}" --policy h2o --group 0.5,0.5

# The same seed gives the same sample, another one a different sample.
run 0 "${ask[@]}" --policy min-h --keep 30% --json
first=$(sed '/econd/d; /resident/d' "$work/out")
run 0 "${ask[@]}" --policy min-h --keep 30% --json
[ "$(sed '/econd/d; /resident/d' "$work/out")" = "$first" ] || fail "two runs with one seed differ"
run 0 "${ask[@]}" --policy min-h --keep 30% --seed 7 --json
[ "$(sed '/econd/d; /resident/d; /"seed"/d' "$work/out")" != "$(sed '/"seed"/d' <<<"$first")" ] ||
    fail "the seed changes nothing"

# Budgets from an error: the larger it may be the less is kept, and 0 keeps everything.
head -c 700 "$(dirname "$0")/../../benchmarks/texts/narrative.txt" >"$work/story"
story=(run -t 1 -f "$work/story" -p "Who is it about?" -p "Where?" -n 4 --policy min-h --select topk --json)
run 0 "${story[@]}" --max-error 0
json 'd["fitted"]["kept_per_head"] == [d["fitted"]["tokens"]] * 90' \
    'd["fitted"]["error_largest"] == 0 and d["fitted"]["queries"] == 32' \
    'd["fitted"]["tokens"] == d["prompt"]["document_tokens"] - 32' \
    'all(a["compression"]["entries_after"] == a["compression"]["entries_before"] for a in d["answers"])'
kept=$(python3 -c 'import json, sys; print(sum(json.load(sys.stdin)["fitted"]["kept_per_head"]))' \
    <"$work/out")
for error in 0.1 0.4; do
    run 0 "${story[@]}" --max-error "$error"
    json 'sum(d["fitted"]["kept_per_head"]) < '"$kept" \
        '0 < d["fitted"]["error_mean"] <= d["fitted"]["error_largest"] <= '"$error" \
        'all(a["compression"]["entries_after"] == sum(d["fitted"]["kept_per_head"]) +
          90 * (32 + a["question_tokens"]) for a in d["answers"])' \
        'd["settings"]["keep"] == "max-error '"$error"'" and d["settings"]["budget"] == "fitted"'
    kept=$(python3 -c 'import json, sys; print(sum(json.load(sys.stdin)["fitted"]["kept_per_head"]))' \
        <"$work/out")
done
run 0 run -t 1 -f "$work/story" -p "Who?" -n 2 --max-error 0.3 --policy streaming
says '^policy +streaming, max-error 0\.3, select topk'
says '^fitted +shares of [0-9.]+ % to [0-9.]+ %, [0-9.]+ % on average; 32 queries held back measured'
refused 2 '--max-error and --keep exclude each other' "${ask[@]}" --max-error 0.1 --keep 5%
refused 2 '--max-error needs a document and a question' run -t 1 -p a --max-error 0.1
printf 'Short.' >"$work/short"
refused 2 'the document is too short for --max-error \(it has [0-9]+ tokens, and 64 are needed' \
    run -t 1 -f "$work/short" -p a --max-error 0.1
finish
