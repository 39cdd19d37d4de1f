#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Answers and statistics of `winnow run`, on texts so short that the model reads them at once.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

cat >"$work/text" <<'TEXT'
The harbour master keeps three boats. The red boat is called Wren and carries mail to the islands on
Mondays. The green boat is called Heron and carries salt, rope and lamp oil. The third boat has no
name and no paint; children say that it belongs to the sea, and the harbour master says that it
belongs to the bank. In winter all three lie under canvas behind the chandler's shed, and the mail
goes by the coast road instead, two days late and smelling of horses.
TEXT
ask=(run -t 1 -f "$work/text" -p "What is the red boat called?" -n 12)

# The statistics: everything that was promised.
run 0 "${ask[@]}" --keep 50%
[ -n "$out" ] || fail "no answer"
says '^document +[0-9]+ tokens, '
says '^question +[0-9]+ tokens'
says '^policy +foresight, keep 50%, select topk, group mean, sink auto, recent auto, budget foresight, fit bv$'
says '^entries +[0-9]+ kept per head \([0-9]+ to [0-9]+\) of [0-9]+: [0-9.]+ %, '
says 'compression ratio r = 0\.[0-9]+$'
says '^KV cache +[0-9.]+ [KM]iB before, [0-9.]+ [KM]iB after: [12]\.[0-9]+ times smaller; '
says 'compressed in [0-9.]+ s$'
says '^resident +[0-9.]+ MiB before, [0-9.]+ MiB after; '
says '^speed +prompt [0-9.]+ tok/s \([0-9]+ tokens\), answer [0-9.]+ tok/s \([0-9]+ tokens\)'
says '^model '
says '^machine +[a-z0-9]+ kernels, [0-9]+ thread'
says_not 'warning|note|rehears'

# Quiet leaves the answer alone, which is the same.
answer=$out
run 0 "${ask[@]}" --keep 50% -q
[ "$out" = "$answer" ] || fail "the answer changed with -q"
[ -z "$err" ] || fail "-q is not quiet"

# 100 % is the uncompressed run.
run 0 "${ask[@]}" --keep 100% -q
everything=$out
run 0 "${ask[@]}" --policy full -q
[ "$out" = "$everything" ] || fail "100 % and the full policy differ"
# So is a budget that the prompt does not fill.
run 0 "${ask[@]}" --keep 5000 -q
[ "$out" = "$everything" ] || fail "a budget beyond the prompt changes the answer"
run 0 "${ask[@]}" --keep 1GiB -q
[ "$out" = "$everything" ] || fail "a budget of bytes beyond the prompt changes the answer"

# Every policy answers, from exactly as many entries as asked for where entries are not sampled.
for policy in random streaming k-norm v-norm tova snapkv h2o h2o-h h2o-mean exposure min min-c min-h; do
    run 0 "${ask[@]}" --policy "$policy" --select topk --keep 48 --window 16 -n 2 --json
    json 'd["answers"][0]["compression"]["kept_per_head_min"] == 48'
    json 'd["answers"][0]["compression"]["kept_per_head_max"] == 48'
    json 'd["answers"][0]["compression"]["entries_after"] == 48 * 90'
    json 'd["settings"]["policy"] == "'"$policy"'"'
done
for policy in foresight rehearsal; do
    run 0 "${ask[@]}" --policy "$policy" --budget head --keep 48 -n 2 --json
    json 'd["answers"][0]["compression"]["kept_per_head_min"] == 48'
    json 'd["answers"][0]["compression"]["kept_per_head_max"] == 48'
    json 'd["settings"]["policy"] == "'"$policy"'"'
done
# The one that is used when none is named divides by what heads will need.
run 0 "${ask[@]}" --keep 48 -n 1 --json
json 'd["settings"]["policy"] == d["settings"]["budget"] == "foresight"'
json 'd["settings"]["eta"] == 1.3 and d["settings"]["head_floor"] == 0.1'
json 'd["settings"]["fit"] == "bv" and d["settings"]["ridge"] == 0.1'
json 'd["answers"][0]["compression"]["entries_after"] == 48 * 90'
json 'd["answers"][0]["compression"]["kept_per_head_min"] < 48'
json 'd["prompt"]["rehearse_tokens"] == 0 and d["prompt"]["rehearse_seconds"] == 0'
# Other divisions of the budget keep as many entries in all, but not in each head.
for budget in adaptive adaptive-model; do
    run 0 "${ask[@]}" --policy h2o-mean --budget "$budget" --keep 48 --json -n 1
    json 'd["answers"][0]["compression"]["entries_after"] == 48 * 90'
    json 'd["answers"][0]["compression"]["kept_per_head_min"] < 48'
    json 'd["answers"][0]["compression"]["kept_per_head_max"] > 48'
    json 'd["settings"]["budget"] == "'"$budget"'"'
done
run 0 "${ask[@]}" --policy pyramidkv --window 8 --beta 4 --sink 0 --recent 0 --keep 48 --json -n 1
json 'd["settings"]["budget"] == "pyramid"'
json 'd["answers"][0]["compression"]["kept_per_head_min"] < 48'
json 'd["answers"][0]["compression"]["kept_per_head_max"] > 48'
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
json 'd["answers"][0]["compression"]["entries_after"] == 48 * 90'
json '0 < d["answers"][0]["compression"]["merged"] <=
      d["answers"][0]["compression"]["entries_before"] - 48 * 90'
json 'd["settings"]["merge"] == 0.5 and d["settings"]["merge_value"] == "mean"'
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

# JSON alone on standard output, with all of the statistics.
run 0 "${ask[@]}" --json
python3 -m json.tool "$work/out" >/dev/null || fail "not JSON"
json 'len(d["answers"]) == 1 and d["answers"][0]["text"].strip() != ""'
json 'd["answers"][0]["question"] == "What is the red boat called?"'
json 'd["prompt"]["tokens_read"] == d["answers"][0]["compression"]["prompt_tokens"]'
json 'd["answers"][0]["tokens"] == d["answers"][0]["decoded_tokens"] + 1'
json 'abs(1 - sum(d["answers"][0]["compression"][key]
                  for key in ("kept_share", "compression_ratio"))) < 1e-6'
json 'd["memory"]["resident_before_bytes"] > 0 and d["memory"]["resident_after_bytes"] > 0'
json 'd["interrupted"] is False'

# Texts from standard input.
run 0 run -t 1 -f - -p "What is the red boat called?" -n 12 --policy full -q <"$work/text"
[ "$out" = "$everything" ] || fail "the document from standard input gives another answer"
echo "What is the red boat called?" >"$work/question"
run 0 run -t 1 -f "$work/text" -p - -n 12 --policy full -q <"$work/question"
[ "$out" = "$everything" ] || fail "the question from standard input gives another answer"
# A document alone is the whole prompt.
run 0 run -t 1 -f "$work/question" -n 4
says '^prompt +[0-9]+ tokens'
run 0 run -t 1 -f "$work/question" -n 1 --json
json 'd["prompt"]["document_tokens"] == d["prompt"]["tokens_read"] ==
      d["answers"][0]["compression"]["prompt_tokens"]'
json 'd["answers"][0]["question"] is None and d["answers"][0]["question_tokens"] == 0'

# Several questions: one reading, an answer each, the same as when asked alone.
run 0 "${ask[@]}" -p "What does Heron carry?" --policy full -q
[[ $out == "> What is the red boat called?"*"> What does Heron carry?"* ]] ||
    fail "the questions are not named"
[[ $out == *"$everything"* ]] || fail "the first of two questions is answered differently"
run 0 run -t 1 -f "$work/text" -p "What does Heron carry?" -p "What is the red boat called?" \
    -n 12 --policy full --json
json 'len(d["answers"]) == 2'
json 'd["answers"][1]["text"] == """'"$everything"'"""'
json 'd["prompt"]["tokens_read"] - d["prompt"]["document_tokens"] ==
      sum(a["question_tokens"] for a in d["answers"])'

# They are answered together, each as it is alone, in their order whatever their lengths.
questions=("Who keeps the boats?" "What does the red boat carry, and to whom?" "Name a boat.")
together=()
expected=
for question in "${questions[@]}"; do
    together+=(-p "$question")
    run 0 run -t 1 -f "$work/text" -p "$question" -n 16 --keep 60% -q
    expected+="${expected:+$'\n\n'}> $question"$'\n'$out
done
run 0 run -t 1 -f "$work/text" "${together[@]}" -n 16 --keep 60%
[ "$out" = "$expected" ] || fail "together they are answered differently"
says '^speed .*, answer [0-9.]+ tok/s \([0-9]+ tokens, 3 questions at once\)$'
# More than are answered at once; the seventeenth begins anew.
together=()
for i in {1..17}; do
    together+=(-p "Say $((i % 2)).")
done
run 0 run -t 1 "${together[@]}" -n 3 --keep 100% --json
says 'answering questions 1 to 16 of 17'
says 'answering questions 17 to 17 of 17'
json 'd["answered_at_once"] == 16 and len(d["answers"]) == 17'
json 'len({a["text"] for a in d["answers"][0::2]}) == len({a["text"] for a in d["answers"][1::2]}) == 1'
json 'all(a["question"] == f"Say {(i + 1) % 2}." and a["tokens"] > 0 and a["decode_seconds"] >= 0
      for i, a in enumerate(d["answers"]))'
run 0 run -t 1 -p "Say 1." -p "Say 0." -n 0 -q
[ "$out" = $'> Say 1.\n\n\n> Say 0.' ] || fail "answers of no tokens"

# Tiny prompts keep at least one entry per head and answer.
for keep in 1% 20% 1 50%; do
    run 0 run -t 1 -p a -n 3 --keep "$keep" --json
    json 'd["answers"][0]["compression"]["kept_per_head_min"] >= 1'
    json 'd["answers"][0]["tokens"] >= 1'
done

# Warnings, and limits of the context.
run 0 "${ask[@]}" --sink 0
says 'warning: --sink 0 lets the first positions be evicted'
run 0 run -t 1 -p hello -n 3 -c 9000
says 'warning: -c 9000 is above the 8192 tokens the model was trained for'
run 0 run -t 1 -p hello -n 100 -c 40 --json
says 'note: the answer is cut to [0-9]+ tokens'
json 'd["answers"][0]["stop"] == "end" or (d["answers"][0]["stop"] == "context" and
      d["answers"][0]["tokens"] + d["answers"][0]["compression"]["prompt_tokens"] == 40)'
refused 2 '--keep 40 leaves 40 of [0-9]+ entries per head \(fewer than --sink 30 and --recent 20' \
    "${ask[@]}" --keep 40 --sink 30 --recent 20

# Budgets from an error: the larger it may be the less is kept, and 0 keeps everything.
head -c 1500 "$(dirname "$0")/../../benchmarks/texts/narrative.txt" >"$work/story"
story=(run -t 1 -f "$work/story" -p "Who is it about?" -p "Where?" -n 4 --policy min-h --select topk --json)
run 0 "${story[@]}" --max-error 0
json 'd["fitted"]["kept_per_head"] == [d["fitted"]["tokens"]] * 90'
json 'd["fitted"]["error_largest"] == 0 and d["fitted"]["queries"] == 32'
json 'd["fitted"]["tokens"] == d["prompt"]["document_tokens"] - 32'
json 'all(a["compression"]["entries_after"] == a["compression"]["entries_before"] for a in d["answers"])'
kept=$(python3 -c 'import json, sys; print(sum(json.load(sys.stdin)["fitted"]["kept_per_head"]))' \
    <"$work/out")
for error in 0.1 0.4; do
    run 0 "${story[@]}" --max-error "$error"
    json 'sum(d["fitted"]["kept_per_head"]) < '"$kept"
    json '0 < d["fitted"]["error_mean"] <= d["fitted"]["error_largest"] <= '"$error"
    json 'all(a["compression"]["entries_after"] == sum(d["fitted"]["kept_per_head"]) +
          90 * (32 + a["question_tokens"]) for a in d["answers"])'
    json 'd["settings"]["keep"] == "max-error '"$error"'" and d["settings"]["budget"] == "fitted"'
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

# Emoji are several tokens each; what streams is whole characters.
run 0 run -t 1 -p 'Repeat exactly: 🦆🌊⚓ 漢字 ñandú' -n 24 --temp 1.5 \
    --top-k 0 --top-p 1 --min-p 0 --seed 3 -q
iconv -f UTF-8 -t UTF-8 "$work/out" >/dev/null || fail "the answer is not UTF-8"

# Whoever reads the answer may have gone or have no room; that is a failure and said so.
if [ -w /dev/full ]; then
    status=0
    "$WINNOW_BIN" run -p hello -n 3 >/dev/full 2>"$work/err" || status=$?
    [ "$status" -eq 1 ] || fail "a full disk gives exit status $status"
    says 'cannot write the answer'
fi

# More threads than cores would crawl: llama.cpp's threads spin. They are not used, and that is said.
run 0 run -p hello -n 2 -t 256
says 'warning: -t 256 is above the [0-9]+ cores this process may use'

# A budget in bytes that cannot hold one entry per head is refused before anything is read.
refused 2 '--keep 1KB is too little \(one entry per head takes [0-9]+ bytes; raise it\)' \
    "${ask[@]}" -t 1 --keep 1000B -p b

# Questions are shown as valid UTF-8 whatever bytes they hold.
run 0 run -t 1 -p $'bad\xff\xfe' -p b -n 1 -q
iconv -f UTF-8 -t UTF-8 "$work/out" >/dev/null || fail "the question is not shown as UTF-8"
finish
