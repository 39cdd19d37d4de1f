#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# LongBench on a tiny model: data that cannot be used, what stands in the results, and that runs which
# were stopped, divided or added to come to the same.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
examples=$(cd "$(dirname "$0")/../../benchmarks/longbench" && pwd)

run 0 bench longbench --help
[[ $out == *"--data DIR"* && $out == *"--subset NAME"* && $out == *"default 20"* ]] ||
    fail "incomplete help"
missing=(bench longbench -m /nonexistent/model.gguf)
refused 2 'no data given \(.*; give their folder with --data DIR\)' "${missing[@]}"
refused 1 '/nonexistent/data \(No such file' "${missing[@]}" --data /nonexistent/data
refused 1 'is not a folder' "${missing[@]}" --data "$0"
mkdir "$work/empty" "$work/data"
refused 1 "has no file of LongBench's English subsets" "${missing[@]}" --data "$work/empty"
refused 2 "unknown subset 'qaspr' \(did you mean qasper\?\)" "${missing[@]}" --data "$examples" --subset qaspr
refused 1 '/nonexistent/model.gguf' "${missing[@]}" --data "$examples"
cp "$examples/qasper.jsonl" "$work/data/"
refused 1 'has no file trec.jsonl \(leave --subset trec out, or add the file\)' \
    "${missing[@]}" --data "$work/data" --subset trec
echo '{"qasper": "{context} {question}"}' >"$work/prompts.json"
refused 1 "qasper: the prompt's format has a brace" "${missing[@]}" --data "$work/data" \
    --prompts "$work/prompts.json"

export WINNOW_MODEL=$tiny_model
longbench=(bench longbench -t 1 --answer-tokens 5)
refused 1 'prompts of 8,190 tokens do not fit \(the model was trained for 8,192, and ' \
    "${longbench[@]}" --data "$examples" --max-tokens 8190

# Three subsets, two examples, two modes; the full cache and two policies.
small=("${longbench[@]}" --data "$examples" --subset qasper --subset samsum --subset lcc
    --max-tokens 256 --policy min-h --policy streaming --keep 50%)
whole=$work/whole.jsonl
run 0 "${small[@]}" --examples 2 -o "$whole" -q --json
[ -z "$err" ] || fail "output on standard error"
json 'd["benchmark"] == "longbench" and d["settings"]["max_tokens"] == 256' \
    'd["settings"]["prompts_of"] == "winnow" and len(d["settings"]["data"]) == 16' \
    'len(d["cells"]) == 3 * 2 * 2 * 3' \
    '[c["values"]["sample"] for c in d["cells"]] == [0] * 18 + [1] * 18' \
    '[c["values"]["task"] for c in d["cells"]][:18:6] == ["qasper", "samsum", "lcc"]' \
    '[c["values"]["mode"] for c in d["cells"]][:6] == ["agnostic"] * 3 + ["aware"] * 3' \
    'd["cells"][1]["cell"] == "task=qasper sample=0 mode=agnostic method=min-h keep=50%"' \
    'all(c["values"]["id"] for c in d["cells"])' \
    'all(0 <= c["values"]["score"] <= 1 and 0 <= c["values"]["n_answer"] <= 5 for c in d["cells"])'
# Long prompts lose their middle; the chat template comes on top of the limit, where there is one.
json 'all(c["values"]["n_cut"] > 0 for c in d["cells"] if c["values"]["task"] == "qasper")' \
    'all(c["values"]["n_cut"] == 0 or 256 <= c["values"]["n_prompt"] <= 300 for c in d["cells"])' \
    'all(c["values"]["n_prompt"] > 256 for c in d["cells"] if c["values"]["task"] == "qasper")' \
    'd["cells"][0]["values"]["prediction"] == d["cells"][3]["values"]["prediction"]' \
    'd["cells"][1]["values"]["n_before"] < d["cells"][4]["values"]["n_before"]'

# Stopped, divided, and with more subsets: the same.
for n in 4 8 20; do
    head -n "$n" "$whole" >"$work/part.jsonl"
    run 0 "${small[@]}" --examples 2 -o "$work/part.jsonl" -q --json
    cmp -s "$work/part.jsonl" "$whole" || fail "another file after line $n"
done
grown=$work/grown.jsonl
run 0 "${small[@]:0:6}" --data "$examples" --subset lcc --max-tokens 256 --policy streaming \
    --keep 50% --examples 1 -o "$grown" -q --json
json 'len(d["cells"]) == 4'
run 0 "${small[@]}" --examples 2 -o "$grown" -q --json
cmp -s <(sort "$grown") <(sort "$whole") || fail "other cells in a file that grew"
for i in 1 2; do
    run 0 "${small[@]}" --examples 2 --shard "$i/2" -q --json -o "$work/shard-$i"
done
cmp -s <(sort -u "$work"/shard-?) <(sort "$whole") || fail "other cells in the shards"
cp "$examples"/*.jsonl "$work/empty/"
echo >>"$work/empty/lcc.jsonl"
refused 1 'its data is ' "${longbench[@]}" --data "$work/empty" --max-tokens 256 -o "$whole"
refused 1 'its max_tokens is 256, and here it is 255' "${small[@]}" --max-tokens 255 -o "$whole"
echo '{"qasper": "{context} {input}"}' >"$work/prompts.json"
refused 1 'its prompts is ' "${small[@]}" --prompts "$work/prompts.json" -o "$whole"

# Lines that cannot be used are named and counted, and the others go on.
{
    head -n 1 "$examples/qasper.jsonl"
    echo '{"input": "cut'
    echo
    echo '{"input": "Who?", "context": "Nobody.", "answers": []}'
    tail -n 1 "$examples/qasper.jsonl"
} >"$work/data/qasper.jsonl"
damaged=("${longbench[@]}" --data "$work/data" --max-tokens 128 --mode agnostic --policy streaming)
run 0 "${damaged[@]}" --examples 0 --json
says '^winnow: qasper.jsonl, line 2, is left out: not JSON'
says '^winnow: qasper.jsonl, line 4, is left out: no texts "answers"'
says '^winnow: 2 lines of the data could not be used$'
json '[c["values"]["sample"] for c in d["cells"]] == [0, 0, 1, 1]' \
    'd["cells"][1]["values"]["keep"] == 0.2'
echo '{"input": "Who?", "context": "Nobody."}' >"$work/data/qasper.jsonl"
refused 1 'has no example that can be used \(1 lines were skipped\)' "${damaged[@]}" -q
finish
