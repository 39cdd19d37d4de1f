#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# RULER on a tiny model: what is refused, what stands in the results, and that runs which were stopped,
# divided or added to come to the same.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

run 0 bench ruler --help
[[ $out == *"--task TASK"* && $out == *"--shard I/N"* && $out == *"--samples N"* ]] ||
    fail "incomplete help"
missing=(bench ruler -m /nonexistent/model.gguf)
refused 1 '/nonexistent/model.gguf' "${missing[@]}"
refused 2 "unknown task 'niah' " "${missing[@]}" --task niah
refused 2 "unknown mode 'awre' \(did you mean aware\?\)" "${missing[@]}" --mode awre
refused 2 "--length '255' is refused" "${missing[@]}" --length 255
refused 2 '--task qa_2 needs a file of questions \(give --hotpotqa FILE\)' "${missing[@]}" --task qa_2
refused 2 'the full cache is measured anyway' "${missing[@]}" --policy full
refused 1 '/nonexistent/essay' "${missing[@]}" --essay /nonexistent/essay
refused 1 '/nonexistent/squad' "${missing[@]}" --squad /nonexistent/squad
printf 'An essay\0 of two parts.' >"$work/essay"
refused 1 'has NUL bytes \(give plain text with --essay\)' "${missing[@]}" --essay "$work/essay"

export WINNOW_MODEL=$tiny_model
ruler=(bench ruler -t 1 --answer-tokens 5)
refused 1 '--length 9,000 is more than the model was trained for \(8,192 tokens; ask for shorter' \
    "${ruler[@]}" --length 300 --length 9000
# What no sample can be made of is said.
run 2 "${ruler[@]}" --task cwe --length 512
says '^winnow: cwe of 512 tokens is left out \(512 tokens are too few'
says '^winnow: no sample could be made: 512 tokens are too few'

# Two tasks, two samples, two modes; the full cache and two policies at two shares.
small=("${ruler[@]}" --task niah_single_1 --task fwe --length 300 --policy min-h --policy streaming
    --keep 50% --keep 25%)
whole=$work/whole.jsonl
run 0 "${small[@]}" --samples 2 -o "$whole" -q --json
[ -z "$err" ] || fail "output on standard error"
json 'd["benchmark"] == "ruler" and d["seed"] == 42 and d["settings"]["answer_tokens"] == 5' \
    'len(d["cells"]) == 2 * 2 * 2 * (1 + 2 * 2)' \
    'd["settings"]["squad"] is None and len(d["settings"]["essay"]) == 16' \
    '[c["values"]["sample"] for c in d["cells"]] == [0] * 20 + [1] * 20' \
    '[c["values"]["task"] for c in d["cells"]][:20] == ["niah_single_1"] * 10 + ["fwe"] * 10' \
    '[c["values"]["mode"] for c in d["cells"]][:10] == ["agnostic"] * 5 + ["aware"] * 5' \
    '[(c["values"]["method"], c["values"]["keep"]) for c in d["cells"]][:5] == [("full", 1),
        ("min-h", 0.5), ("min-h", 0.25), ("streaming", 0.5), ("streaming", 0.25)]' \
    'd["cells"][1]["cell"] == "task=niah_single_1 length=300 sample=0 mode=agnostic method=min-h keep=50%"' \
    'all(0 <= c["values"]["score"] <= 1 and 0 <= c["values"]["n_answer"] <= 5 for c in d["cells"])' \
    'all(270 <= c["values"]["n_prompt"] <= 295 for c in d["cells"])' \
    'all(c["values"]["prediction"] != "" for c in d["cells"] if c["values"]["n_answer"] > 0)'
# The context alone is compressed where the question is not known; shares are those of its entries.
json 'all(a["values"]["n_before"] < b["values"]["n_before"] for a, b in
        zip(d["cells"][1:5], d["cells"][6:10]))' \
    'all(abs(c["values"]["n_after"] / c["values"]["n_before"] - c["values"]["keep"]) < 0.01
        for c in d["cells"])' \
    'all(abs(c["values"]["bytes_after"] / c["values"]["bytes_before"] - c["values"]["keep"]) < 0.01
        for c in d["cells"])'
# The full cache says the same in both modes, and holds the prompt.
json 'all({**d["cells"][i]["values"], "mode": 0} == {**d["cells"][i + 5]["values"], "mode": 0}
        for i in range(0, 40, 10))' \
    'all(d["cells"][i]["values"]["n_before"] == 90 * d["cells"][i]["values"]["n_prompt"]
        for i in range(0, 40, 5))' \
    'd["cells"][1]["values"]["prediction"] != d["cells"][6]["values"]["prediction"] or
        d["cells"][2]["values"]["prediction"] != d["cells"][7]["values"]["prediction"]'

# Stopped anywhere, it comes to the same file: between modes, within one, within a line.
for n in 6 8 21; do
    head -n "$n" "$whole" >"$work/part.jsonl"
    [ "$n" -eq 21 ] && printf '{"cell":"task=ni' >>"$work/part.jsonl"
    run 0 "${small[@]}" --samples 2 -o "$work/part.jsonl" -q --json
    cmp -s "$work/part.jsonl" "$whole" || fail "another file after line $n"
done
run 0 "${small[@]}" --samples 2 -o "$whole" --json
says '^winnow: 40 results are in .*whole.jsonl, 0 samples are missing$'
cmp -s "$whole" "$work/part.jsonl" || fail "the file changed although nothing was missing"

run 0 "${small[@]}" --samples 2 -o "$whole" -q
[ "$(grep -Ec '^ *100 % +full +' <<<"$out")" -eq 2 ] || fail "not a row of the full cache for each mode"
run 0 "${small[@]}" --samples 2 -o "$whole" -q --markdown
grep -Eq '^\| 25 % \| min-h \|' <<<"$out" || fail "no row of Markdown"

# Files grow, in any order, to the same cells.
grown=$work/grown.jsonl
run 0 "${small[@]}" --samples 1 --mode aware -o "$grown" -q --json
json 'len(d["cells"]) == 10'
run 0 "${small[@]}" --samples 2 -o "$grown" --json
says '^winnow: 10 results are in .*, 4 samples are missing$'
cmp -s <(sort "$grown") <(sort "$whole") || fail "other cells in a file that grew"
# Parts too.
for i in 1 2 3; do
    run 0 "${small[@]}" --samples 2 --shard "$i/3" -q --json -o "$work/shard-$i"
done
cmp -s <(sort -u "$work"/shard-?) <(sort "$whole") || fail "other cells in the shards"
cat "$work"/shard-? >"$work/joined"
run 0 "${small[@]}" --samples 2 -o "$work/joined" --json
says '^winnow: 40 results are in .*joined, 0 samples are missing$'
refused 1 'its answer_tokens is 5, and here it is 6' "${small[@]}" --answer-tokens 6 -o "$whole"
refused 1 'its essay is ' "${small[@]}" --essay "$0" -o "$whole"

# More forks than a step takes, a policy that rehearses, and stores of 8 bits.
run 0 "${ruler[@]}" --task niah_multikey_1 --length 320 --samples 1 --mode agnostic -ctk q8_0 \
    --policy rehearsal --policy "snapkv --window 8" --policy k-norm --policy foresight --keep 90% \
    --keep 80% --keep 70% --keep 60% --keep 50% -q --json
json 'len(d["cells"]) == 21 and d["settings"]["k_type"] == "q8_0"' \
    'len({c["cell"] for c in d["cells"]}) == 21' \
    'd["cells"][-1]["values"]["n_after"] < d["cells"][-2]["values"]["n_after"]'

# Questions come from files; a file with fewer than the samples asked for says so.
cat >"$work/squad.json" <<'JSON'
{"data": [{"paragraphs": [
  {"context": "The mill at Arden grinds oats.", "qas": [
     {"question": "What does the mill grind?", "answers": [{"text": "oats"}]}]},
  {"context": "The mill at Brook grinds rye, and has done so for long.", "qas": []}]}]}
JSON
run 0 "${ruler[@]}" --task qa_1 --squad "$work/squad.json" --length 300 --samples 3 --mode agnostic \
    --policy streaming --keep 50% --json
says '^winnow: qa_1 has 1 samples, one for each question of its file$'
json 'len(d["cells"]) == 2 and d["cells"][1]["values"]["task"] == "qa_1"' \
    'len(d["settings"]["squad"]) == 16 and d["settings"]["hotpotqa"] is None'

# A policy that cannot be measured is named, and so is a share that it cannot keep.
refused 2 'task=niah_single_1 length=300 sample=0: policy min-h --group 0.5,0.5 cannot be measured here: .*\(name others with --policy\)$' \
    "${ruler[@]}" --task niah_single_1 --length 300 --policy "min-h --group 0.5,0.5"
refused 2 'policy min-h --sink 200 --recent 50 cannot keep 20 %: ' \
    "${ruler[@]}" --task niah_single_1 --length 300 --policy "min-h --sink 200 --recent 50"

# A model without a chat template reads plain text; of the usual lengths those are taken that it has.
zoo=${WINNOW_ZOO:-}
if [ -f "$zoo/gpt2.gguf" ]; then
    plain=(bench ruler -m "$zoo/gpt2.gguf" -t 1 --answer-tokens 3 --task niah_single_1 --samples 1)
    run 0 "${plain[@]}" --policy streaming --keep 50% --mode aware --json
    says '^winnow: the model has no chat template that can be used: prompts are plain text$'
    json 'len(d["cells"]) == 2 and d["cells"][0]["values"]["length"] == 1024'
    refused 1 'policy foresight cannot be measured here: foresight cannot place the model.s queries' \
        bench ruler -m "$zoo/qwen2vl.gguf" -t 1 --length 500 --task niah_single_1 -q
fi

# Ctrl-C: what is measured stays, and is gone on with.
stop_at 4 "$work/stopped" "${small[@]}" --samples 2 -o "$work/stopped" --json
says 'stopped on request: [0-9]+ results are there; the same command goes on from there$'
json '0 < len(d["cells"]) < 40 and len(d["cells"]) % 5 == 0'
run 0 "${small[@]}" --samples 2 -o "$work/stopped" -q --json
cmp -s "$work/stopped" "$whole" || fail "another file after an interruption"
finish
