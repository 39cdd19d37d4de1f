#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Answers and statistics of `winnow run`, on a text so short that the model reads it at once.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

cat >"$work/text" <<'TEXT'
The harbour master keeps three boats. The red boat is called Wren and carries mail to the islands on
Mondays. The green boat is called Heron and carries salt, rope and lamp oil.
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

# JSON alone on standard output, with all of the statistics.
run 0 "${ask[@]}" --json
python3 -m json.tool "$work/out" >/dev/null || fail "not JSON"
json 'len(d["answers"]) == 1 and d["answers"][0]["text"].strip() != ""' \
    'd["answers"][0]["question"] == "What is the red boat called?"' \
    'd["prompt"]["tokens_read"] == d["answers"][0]["compression"]["prompt_tokens"]' \
    'd["answers"][0]["tokens"] == d["answers"][0]["decoded_tokens"] + 1' \
    'abs(1 - sum(d["answers"][0]["compression"][key]
                  for key in ("kept_share", "compression_ratio"))) < 1e-6' \
    'd["memory"]["resident_before_bytes"] > 0 and d["memory"]["resident_after_bytes"] > 0' \
    'd["interrupted"] is False'

# Texts from standard input.
run 0 run -t 1 -f - -p "What is the red boat called?" -n 12 --policy full -q <"$work/text"
[ "$out" = "$everything" ] || fail "the document from standard input gives another answer"
echo "What is the red boat called?" >"$work/question"
run 0 run -t 1 -f "$work/text" -p - -n 12 --policy full -q <"$work/question"
[ "$out" = "$everything" ] || fail "the question from standard input gives another answer"

# Several questions: one reading, an answer each, the same as when asked alone.
run 0 "${ask[@]}" -p "What does Heron carry?" --policy full -q
[[ $out == "> What is the red boat called?"*"> What does Heron carry?"* ]] ||
    fail "the questions are not named"
[[ $out == *"$everything"* ]] || fail "the first of two questions is answered differently"
run 0 run -t 1 -f "$work/text" -p "What does Heron carry?" -p "What is the red boat called?" \
    -n 12 --policy full --json
json 'len(d["answers"]) == 2' \
    'd["answers"][1]["text"] == """'"$everything"'"""' \
    'd["prompt"]["tokens_read"] - d["prompt"]["document_tokens"] ==
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

# Emoji are several tokens each; what streams is whole characters.
run 0 run -t 1 -p 'Repeat exactly: 🦆🌊⚓ 漢字 ñandú' -n 24 --temp 1.5 \
    --top-k 0 --top-p 1 --min-p 0 --seed 3 -q
iconv -f UTF-8 -t UTF-8 "$work/out" >/dev/null || fail "the answer is not UTF-8"

finish
