#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The perplexity benchmark: a budget that is never reached is the full cache, what was stopped goes
# on to the same figures, and what cannot be measured is refused.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
WINNOW_MODEL=$tiny_model
zoo=${WINNOW_ZOO:-}
texts=$(dirname "$0")/../../benchmarks/texts

missing=(bench perplexity -m /nonexistent/model.gguf)
run 0 bench perplexity --help
[[ $out == *"--budget N"* && $out == *"of 64 tokens"* && $out == *"--shard I/N"* ]] ||
    fail "incomplete help"
run 0 bench --help
[[ $out == *"  perplexity "* ]] || fail "the help does not list the benchmark"
refused 2 "unknown flag --keep" "${missing[@]}" --keep 20%
refused 2 "--budget '20%' is refused \(not a whole number" "${missing[@]}" --budget 20%
refused 2 "--budget 64 is given twice" "${missing[@]}" --budget 64 --budget 64
refused 2 "--policy 'full' is refused: the full cache is measured anyway" "${missing[@]}" --policy full
refused 2 "--budget 8 leaves too few entries per head \(--sink 4 and --recent 8" \
    "${missing[@]}" --budget 8 --policy 'streaming --sink 4 --recent 8'
refused 2 "standard input is named 2 times" "${missing[@]}" -f - -f -
refused 1 '/nonexistent/model.gguf' "${missing[@]}"

ppl=(bench perplexity -t 1 --json -q)
policies=(--policy foresight --policy min-h --policy snapkv --policy k-norm --policy streaming)
seq -s ' ' 60 >"$work/numbers.txt"
cp "$texts/manual.txt" "$work/manual.txt"
run 0 "${ppl[@]}" -f "$work/manual.txt" -f "$work/numbers.txt" --tokens 300 --budget 40 --budget 500 \
    "${policies[@]}" -o "$work/whole"
cat >"$work/cells.py" <<'PYTHON'
import json, math, sys
d = json.load(open(sys.argv[1], encoding="utf-8"))
cells = [cell["values"] for cell in d["cells"]]
assert d["benchmark"] == "perplexity" and d["settings"]["step_tokens"] == 64
assert len(cells) == 22, len(cells)
assert len({cell["cell"] for cell in d["cells"]}) == 22
for text in ("manual", "numbers"):
    of_text = [v for v in cells if v["text"] == text]
    full = [v for v in of_text if v["method"] == "full"]
    assert len(full) == 1 and full[0]["budget"] == 0 and full[0]["n_compressions"] == 0
    full = full[0]
    assert full["peak_entries"] == full["n_tokens"]
    for v in of_text:
        assert v["n_scored"] == v["n_tokens"] - 1 == sum(v["part_scored"])
        assert math.isclose(v["nll"], sum(v["part_nll"]), rel_tol=1e-8)
        assert math.isclose(v["perplexity"], math.exp(v["nll"] / v["n_scored"]), rel_tol=1e-6)
        assert v["n_rebased"] == 0
        if v["budget"] == 500:
            same = ("nll", "perplexity", "part_nll", "bytes", "peak_entries", "n_compressions")
            assert all(v[key] == full[key] for key in same), v
        if v["budget"] == 40:
            assert v["n_compressions"] > 0 and v["peak_entries"] <= 72 and v["nll"] != full["nll"]
            assert v["bytes"] * full["n_tokens"] <= full["bytes"] * 72, v
manual = [v for v in cells if v["text"] == "manual"]
assert all(v["n_tokens"] == 300 for v in manual)
# Methods choose differently.
assert len({v["nll"] for v in manual if v["budget"] == 40}) >= 4
PYTHON
python3 "$work/cells.py" "$work/out" 2>"$work/err" || fail "wrong cells: $(tail -n 3 "$work/err")"

# Losses are summed over parts of 1,024 tokens.
run 0 "${ppl[@]}" -f "$work/manual.txt" --tokens 1100 --budget 2000 --policy streaming
json '[c["values"]["part_scored"] for c in d["cells"]] == [[1023, 76]] * 2'
json 'd["cells"][0]["values"]["part_nll"] == d["cells"][1]["values"]["part_nll"]'

# What was cut off in the middle of a line goes on to the same file, whatever the other cells are.
cp "$work/whole" "$work/cut"
truncate -s $(($(head -n 9 "$work/whole" | wc -c) + 20)) "$work/cut"
run 0 "${ppl[@]}" -f "$work/manual.txt" -f "$work/numbers.txt" --tokens 300 --budget 40 --budget 500 \
    "${policies[@]}" -o "$work/cut"
cmp -s "$work/cut" "$work/whole" || fail "a run that went on is not the same"
# Shards, joined, are the same cells.
for shard in 1 2; do
    run 0 "${ppl[@]}" -f "$work/manual.txt" -f "$work/numbers.txt" --tokens 300 --budget 40 \
        --budget 500 "${policies[@]}" -o "$work/shard-$shard" --shard "$shard/2"
done
cmp -s <(sort -u "$work/shard-1" "$work/shard-2") <(sort -u "$work/whole") ||
    fail "shards are not the whole"
# Another text of the same name, or an edited one, is measured anew.
cp "$texts/narrative.txt" "$work/manual.txt"
run 0 "${ppl[@]}" -f "$work/manual.txt" --tokens 300 --budget 40 --policy streaming -o "$work/whole"
json 'len(d["cells"]) == 24'
refused 1 'its seed is 42, and here it is 7' "${ppl[@]}" -f "$work/manual.txt" --tokens 300 --seed 7 \
    -o "$work/whole"
refused 1 'its k_type is' "${ppl[@]}" -f "$work/manual.txt" --tokens 300 -ctk q8_0 -o "$work/whole"

# A fit is made only where it is asked for; texts of their own are not needed.
run 0 "${ppl[@]}" --tokens 200 --budget 40 --policy foresight --policy 'foresight --fit none' \
    --policy 'foresight --fit b'
json 'd["cells"][0]["values"]["text"] == "built-in"'
json 'd["cells"][1]["values"]["nll"] == d["cells"][2]["values"]["nll"]'
json 'd["cells"][1]["values"]["nll"] != d["cells"][3]["values"]["nll"]'

# Tables for people.
run 0 bench perplexity -t 1 -q -f "$work/numbers.txt" --budget 40 --policy streaming --markdown
grep -Eq '^\| 40 \| streaming \| [0-9.]+ \|' <<<"$out" || fail "no row of the policy"
grep -Eq '^\| - \| full \| [0-9.]+ \|' <<<"$out" || fail "no row of the full cache"

# Texts.
refused 2 'is there twice' "${ppl[@]}" -f "$work/manual.txt" -f "$work/manual.txt"
refused 1 'nothing.txt' "${ppl[@]}" -f "$work/nothing.txt"
: >"$work/empty.txt"
refused 1 'it is empty' "${ppl[@]}" -f "$work/empty.txt"

# Ctrl-C ends between two tokens, keeps the cells that are complete, and the rest is added later.
last_command="bench perplexity, interrupted"
stopped=("${ppl[@]}" -f "$texts/records.txt" --tokens 500 --budget 64 --budget 96 --policy streaming
    --policy foresight)
python3 - "$work" "$WINNOW_BIN" "${stopped[@]}" -o "$work/stopped" <<'PYTHON' || fail "did not stop as it should"
import os, signal, subprocess, sys, time
work, command = sys.argv[1], sys.argv[2:]
with open(work + "/out", "wb") as out, open(work + "/err", "wb") as err:
    process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if os.path.exists(work + "/stopped") and open(work + "/stopped").read().count("\n") >= 2:
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    status = process.wait(timeout=60)
sys.exit(0 if status == 130 else 1)
PYTHON
err=$(cat "$work/err")
says 'stopped on request: [0-9]+ results are there; the same command goes on from there$'
run 0 "${stopped[@]/-q/--json}" -o "$work/stopped"
says '^winnow: [1-4] results are in .*, ([1-4]?[05]00) tokens are missing$'
json 'len(d["cells"]) == 5'
run 0 "${stopped[@]}" -o "$work/at-once"
cmp -s "$work/stopped" "$work/at-once" || fail "a run that was stopped and went on is not the same"

# Beyond the context positions are re-based and there is no full cache; models that cannot do either
# are refused.
if [ ! -f "$zoo/llama.gguf" ]; then
    finish
    exit 0
fi
run 0 bench perplexity -m "$zoo/llama.gguf" -f "$texts/manual.txt" --tokens 1300 --budget 64 -t 1 \
    --policy streaming --policy foresight --json
says 'the text manual has 1,300 tokens, more than the context of 1,024: it is not measured with the full cache'
json '[c["values"]["method"] for c in d["cells"]] == ["streaming", "foresight"]'
json 'all(c["values"]["n_rebased"] == 1 and c["values"]["n_scored"] == 1299 for c in d["cells"])'
json 'all(c["values"]["peak_entries"] <= 96 for c in d["cells"])'
refused 1 'more than the model.s context of 1,024 \(whose positions cannot be re-based; give --tokens 1024\)' \
    "${ppl[@]}" -m "$zoo/qwen2vl.gguf" -f "$texts/manual.txt" --tokens 1300 --policy streaming
refused 1 "policy 'foresight' cannot keep to 64 entries per head \(.*; leave it out\)" \
    "${ppl[@]}" -m "$zoo/qwen2vl.gguf" --tokens 200 --budget 64
finish
