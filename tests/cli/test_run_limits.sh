#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `winnow run`: many questions, tiny prompts, limits of the context and of the machine, warnings.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
export WINNOW_MODEL=$tiny_model

cat >"$work/text" <<'TEXT'
The red boat is called Wren and carries mail. The green boat is called Heron and carries salt.
TEXT
echo "What is the red boat called?" >"$work/question"
ask=(run -t 1 -f "$work/text" -p "What is the red boat called?" -n 12)

# A document alone is the whole prompt.
run 0 run -t 1 -f "$work/question" -n 4
says '^prompt +[0-9]+ tokens'
run 0 run -t 1 -f "$work/question" -n 1 --json
json 'd["prompt"]["document_tokens"] == d["prompt"]["tokens_read"] ==
      d["answers"][0]["compression"]["prompt_tokens"]' \
    'd["answers"][0]["question"] is None and d["answers"][0]["question_tokens"] == 0'

# More than are answered at once; the seventeenth begins anew.
together=()
for i in {1..17}; do
    together+=(-p "Say $((i % 2)).")
done
run 0 run -t 1 "${together[@]}" -n 3 --keep 100% --json
says 'answering questions 1 to 16 of 17'
says 'answering questions 17 to 17 of 17'
json 'd["answered_at_once"] == 16 and len(d["answers"]) == 17' \
    'len({a["text"] for a in d["answers"][0::2]}) == len({a["text"] for a in d["answers"][1::2]}) == 1' \
    'all(a["question"] == f"Say {(i + 1) % 2}." and a["tokens"] > 0 and a["decode_seconds"] >= 0
      for i, a in enumerate(d["answers"]))'
run 0 run -t 1 -p "Say 1." -p "Say 0." -n 0 -q
[ "$out" = $'> Say 1.\n\n\n> Say 0.' ] || fail "answers of no tokens"

# Tiny prompts keep at least one entry per head and answer.
for keep in 1% 20% 1 50%; do
    run 0 run -t 1 -p a -n 3 --keep "$keep" --json
    json 'd["answers"][0]["compression"]["kept_per_head_min"] >= 1' \
        'd["answers"][0]["tokens"] >= 1'
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
refused 2 '--keep 20 leaves 20 of [0-9]+ entries per head \(fewer than --sink 15 and --recent 10' \
    "${ask[@]}" --keep 20 --sink 15 --recent 10

# Whoever reads the answer may have gone or have no room; that is a failure and said so.
if [ -w /dev/full ]; then
    status=0
    "$WINNOW_BIN" run -t 1 -p hello -n 3 >/dev/full 2>"$work/err" || status=$?
    [ "$status" -eq 1 ] || fail "a full disk gives exit status $status"
    says 'cannot write the answer'
fi

# More threads than cores would crawl: llama.cpp's threads spin. They are not used, and that is said.
run 0 run -p hello -n 0 --policy full -t 256
says 'warning: -t 256 is above the [0-9]+ cores this process may use'

# A budget in bytes that cannot hold one entry per head is refused before anything is read.
refused 2 '--keep 1KB is too little \(one entry per head takes [0-9]+ bytes; raise it\)' \
    "${ask[@]}" -t 1 --keep 1000B -p b

# Questions are shown as valid UTF-8 whatever bytes they hold.
run 0 run -t 1 -p $'bad\xff\xfe' -p b -n 1 -q
iconv -f UTF-8 -t UTF-8 "$work/out" >/dev/null || fail "the question is not shown as UTF-8"
finish
