#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# winnow bench fidelity, attention-error and ratio on a tiny model: what the figures must be where it
# is known, what is kept in the file, and what is refused.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
export WINNOW_MODEL=$tiny_model

for name in fidelity attention-error ratio; do
    run 0 bench "$name" --help
    [[ $out == *"--policy POLICY"* && $out == *"--shard I/N"* && $out == *"default 42"* ]] ||
        fail "incomplete help of $name"
done
refused 2 "--policy 'snapk' is refused: .*did you mean snapkv" bench fidelity --policy snapk
refused 2 "--policy 'min-h --keep 5%' is refused: --keep is set by the benchmark itself" \
    bench fidelity --policy 'min-h --keep 5%'
refused 2 "--policy 'min-h --tau 0' is refused: --tau" bench fidelity --policy 'min-h --tau 0'
refused 2 "--policy 'full' is refused: the full cache is measured anyway" \
    bench fidelity --policy full
refused 2 "--policy '' is refused: it names no policy" bench fidelity --policy ''
refused 2 "--policy  snapkv is given twice" bench fidelity --policy snapkv --policy ' snapkv'
refused 2 "--keep '0%' is refused" bench fidelity --keep 0%
refused 2 "--keep 33.33333333% is given twice" bench fidelity --keep 33.3333333% --keep 33.33333333%
refused 2 "--tau 2.0000001 is given twice" bench attention-error --tau 2 --tau 2.0000001
refused 2 "--tau is set by the benchmark itself" bench attention-error --policy 'h2o --tau 7'
refused 2 "--budget is set by the benchmark itself" bench ratio --policy 'h2o --budget global'
refused 2 "--tau '0' is refused" bench attention-error --tau 0
refused 2 "--tau 2.0 is given twice" bench attention-error --tau 2 --tau 2.0
refused 2 "--policy is given 2 times \(give it once\)" bench ratio --policy min-h --policy h2o
refused 2 "the question has [0-9]+ tokens, and --judges asks for 4096" \
    bench attention-error --judges 4096
refused 1 "more than the model was trained for" bench fidelity --prefix 200000 --scored 2 \
    -f <(for _ in $(seq 20000); do echo "one two three four five six seven eight"; done)
refused 1 "nothing.txt" bench fidelity -f "$work/nothing.txt"
printf 'Too short to be compressed.\n' >"$work/short.txt"
refused 2 "short.txt has [0-9]+ tokens \(164 are needed" \
    bench fidelity -f "$work/short.txt" --prefix 100

text=$(dirname "$0")/../../benchmarks/texts/narrative.txt
[ -f "$text" ] || text=${WINNOW_SOURCE:?}/benchmarks/texts/narrative.txt
other=$work/other.txt
head -c 6000 "$text" | tail -c 4000 >"$other"
refused 2 "is there twice" bench fidelity -f "$text" -f "$text" --prefix 100

# Everything kept is the full cache to the last bit, whatever the policy; llama.cpp differs by rounding.
fidelity=(bench fidelity -f "$text" -f "$other" --prefix 100 --scored 8 --seeds 2
    --policy min-h --policy 'snapkv  --budget adaptive' --keep 100% --keep 30% -t 1 -q)
run 0 "${fidelity[@]}" -o "$work/all.jsonl" --json
json 'd["benchmark"] == "fidelity" and d["seed"] == 42'
json 'd["settings"] == {"n_prefix": 100, "n_scored": 8, "k_type": "f16", "v_type": "f16"}'
json 'len(d["cells"]) == 2 * (1 + 2 * 2 + 2 * 1)'
json '{c["values"]["text"] for c in d["cells"]} == {"narrative", "other"}'
json '{c["values"]["method"] for c in d["cells"]} == {"llama.cpp", "min-h", "snapkv --budget adaptive"}'
json 'all((v["kl_mean"], v["kl_median"], v["same_top"], v["perplexity_ratio"]) == (0, 0, 1, 1)
    for v in (c["values"] for c in d["cells"]) if v["keep"] == 1 and v["method"] != "llama.cpp")'
json 'all(set(v["attention_error"]) == {0} and v["n_after"] == v["n_before"] == sum(v["head_kept"])
    for v in (c["values"] for c in d["cells"]) if v["keep"] == 1 and v["method"] != "llama.cpp")'
json 'all(v["kl_mean"] > 0 and min(v["attention_error"]) > 0 and v["bytes_after"] < v["bytes_before"]
    and sum(v["head_kept"]) == v["n_after"] and v["n_scored"] == 8
    for v in (c["values"] for c in d["cells"]) if v["keep"] < 1)'
json 'all(abs(v["n_after"] / v["n_before"] - 0.3) < 0.005
    for v in (c["values"] for c in d["cells"]) if v["keep"] < 1 and v["method"] != "min-h")'
json 'all(0 < v["kl_mean"] < 0.02 for v in (c["values"] for c in d["cells"]) if v["method"] == "llama.cpp")'

# A run that was stopped goes on to the same file; shards, joined, hold the same cells.
head -n 6 "$work/all.jsonl" >"$work/part.jsonl"
run 0 "${fidelity[@]}" -o "$work/part.jsonl"
cmp -s "$work/all.jsonl" "$work/part.jsonl" || fail "what went on differs from the whole"
run 0 "${fidelity[@]}" -o "$work/s1" --shard 1/2
run 0 "${fidelity[@]}" -o "$work/s2" --shard 2/2
[ "$(grep -h '"cell"' "$work/s1" "$work/s2" | sort)" = "$(grep '"cell"' "$work/all.jsonl" | sort)" ] ||
    fail "shards differ from the whole"
# Other kernels give the same figures but for rounding, which may move a draw.
WINNOW_CPU=reference run 0 "${fidelity[@]}" --json
cp "$work/out" "$work/reference.json"
run 0 "${fidelity[@]}" --json
json "all(x['cell'] == y['cell'] and abs(x['values'].get('n_after', 0) - y['values'].get('n_after', 0)) < 10
    and abs(x['values']['kl_mean'] - y['values']['kl_mean']) < 0.05 * x['values']['kl_mean'] + 1e-4
    for x, y in zip(d['cells'], json.load(open('$work/reference.json'))['cells']))"
# Of the same text with other settings the file would not be one.
refused 1 'its n_scored is 8, and here it is 9' bench fidelity -f "$text" --prefix 100 --scored 9 \
    -o "$work/all.jsonl"
# A file of the same name with another content is another text.
cp "$other" "$work/narrative.txt"
run 0 bench fidelity -f "$work/narrative.txt" --prefix 100 --scored 8 --policy k-norm --keep 50% -t 1 -q \
    -o "$work/all.jsonl"
[ "$(grep -c '"text":"narrative"' "$work/all.jsonl")" -eq 9 ] || fail "the other text was not measured"

# A name that is no UTF-8, quantised caches, which have no noise floor, and files that are joined twice.
cp "$other" "$work/"$'na\xffme.txt'
run 0 bench fidelity -f "$work/"$'na\xffme.txt' --prefix 100 --scored 8 --policy k-norm --keep 50% -t 1 -q \
    -ctk q8_0 -ctv q8_0 --json
json '[(c["values"]["text"], c["values"]["method"]) for c in d["cells"]] == [("na\ufffdme", "k-norm")]'
cat "$work/s1" "$work/s1" "$work/s2" >"$work/joined.jsonl"
run 0 "${fidelity[@]}" -o "$work/joined.jsonl" --json
json 'len(d["cells"]) == 14'
head -c 40 "$work/all.jsonl" >"$work/cut.jsonl"
run 0 "${fidelity[@]}" -o "$work/cut.jsonl"
cmp -s "$work/cut.jsonl" "$work/s1" && fail "the shard is the whole"
[ "$(grep -c '' "$work/cut.jsonl")" -eq 15 ] || fail "a header that was cut was not written anew"

# Corrections: none at tau = inf; top-k draws nothing; seeds differ; less kept, larger errors on average.
run 0 bench attention-error -f "$text" --prefix 200 --seeds 2 --tau 1 --tau 4 --keep 100% --keep 50% \
    --keep 10% --judges 3 -t 1 -q --json
json 'd["benchmark"] == "attention-error" and d["settings"]["judges"] == 3'
json 'len(d["cells"]) == 3 * (1 + 3 * 2)'
json '{c["values"]["series"]: c["values"].get("tau", 0) for c in d["cells"]} == {"top-k": 0,
    "sampled, uncorrected": None, "sampled, corrected, tau=1": 1, "sampled, corrected, tau=4": 4}'
json 'all(v["relative_error"] == v["mean_absolute_error"] == 0
    for v in (c["values"] for c in d["cells"]) if v["series"] == "top-k" and v["keep"] == 1)'
json 'all(abs(v["kept"] + v["compression"] - 1) < 1e-9 and v["n_queries"] == 3 for v in (c["values"] for c in d["cells"]))'
json 'len({v["mean_absolute_error"] for v in (c["values"] for c in d["cells"]) if v["keep"] == 0.1}) == 7'
json 'all(v["mean_absolute_error"] < w["mean_absolute_error"]
    for v in (c["values"] for c in d["cells"]) for w in (c["values"] for c in d["cells"])
    if v["series"] == w["series"] and v["seed"] == w["seed"] and v["keep"] == 0.5 and w["keep"] == 0.1)'

# The share kept is the one asked for within chance, of each head and of all together.
run 0 bench ratio -f "$text" --prefix 200 --seeds 3 --keep 50% --keep 10% -t 1 -q --json
json 'd["benchmark"] == "ratio" and len(d["cells"]) == 2 * 2 * 3'
json 'all(abs(v["kept"] - v["keep"]) < 0.01 and abs(v["kept"] - v["n_after"] / v["n_before"]) < 1e-8
    for v in (c["values"] for c in d["cells"]))'
json '{c["values"]["budget"] for c in d["cells"]} == {"head", "global"}'

finish
