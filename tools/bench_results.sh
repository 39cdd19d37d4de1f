#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the result set in benchmarks/results and makes its report. What is there already is not
# measured again: delete a file to begin anew. Hours on two cores; Ctrl-C stops, the next call goes on.
#   WINNOW_BIN    the program; default build/winnow
#   WINNOW_MODEL  the model
#   RESULTS       the folder; default benchmarks/results
#   SAMPLES_1K, SAMPLES_2K, SAMPLES_4K  samples of each of RULER's tasks; default 10
set -euo pipefail
cd "$(dirname "$0")/.."
winnow=${WINNOW_BIN:-build/winnow}
results=${RESULTS:-benchmarks/results}
texts=()
for text in benchmarks/texts/*.txt; do
    texts+=(-f "$text")
done
ruler=(bench ruler --squad benchmarks/qa/squad.json --hotpotqa benchmarks/qa/hotpotqa.json
    -o "$results/ruler.jsonl")
mkdir -p "$results"

"$winnow" bench fidelity "${texts[@]}" -o "$results/fidelity.jsonl" >/dev/null
"$winnow" bench attention-error -o "$results/attention-error.jsonl" >/dev/null
"$winnow" bench ratio -o "$results/ratio.jsonl" >/dev/null
"$winnow" bench perplexity -o "$results/perplexity.jsonl" >/dev/null
"$winnow" "${ruler[@]}" --length 1024 --samples "${SAMPLES_1K:-10}" >/dev/null
"$winnow" "${ruler[@]}" --length 2048 --samples "${SAMPLES_2K:-10}" >/dev/null
"$winnow" "${ruler[@]}" --length 4096 --samples "${SAMPLES_4K:-10}" --policy foresight \
    --policy rehearsal --policy streaming --policy k-norm >/dev/null
"$winnow" report "$results"/*.jsonl --markdown >"$results/tables.md"
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
"$winnow" report "$results"/*.jsonl -o "$pages" >/dev/null
cp "$pages/report.html" "$results/report.html"
echo "$results/report.html"
