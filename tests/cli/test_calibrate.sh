#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `winnow calibrate`: what it prints and stores, and what it refuses.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

export XDG_CACHE_HOME=$work/cache HOME=$work
model=$work/model.gguf
ln -s "$(realpath "$WINNOW_MODEL")" "$model"
ln -s "$(realpath "$tiny_model")" "$work/tiny.gguf"
stored=$model.calibration.json
data=${WN_TEST_DATA:-$(dirname "$0")/..}
head -c 1250 "$data/../benchmarks/texts/narrative.txt" >"$work/text"
measure=(calibrate -m "$model" -t 1)

# shows PATTERN: as says, for standard output.
shows() {
    grep -Eq -- "$1" "$work/out" || fail "standard output does not match: $1"
}

# What can be refused before anything is measured is.
printf 'A short text.\n' >"$work/short"
refused 1 "^winnow: $work/short is too short to calibrate with \([0-9]+ tokens; give a text of at least 256" \
    "${measure[@]}" -f "$work/short"
refused 1 'cannot open .*/none ' "${measure[@]}" -f "$work/none"
refused 1 'cannot write .*/none/file' "${measure[@]}" -f "$work/text" -o "$work/none/file"
refused 1 'cannot write .*it is not a file' "${measure[@]}" -f "$work/text" -o "$work"
refused 1 'cannot use the model' calibrate -m "$work/text" -f "$work/text"
refused 2 'standard input is named 2 times' "${measure[@]}" -f - -f -
refused 2 "the output's name is empty" "${measure[@]}" -o ""
refused 2 "a text's name is empty" "${measure[@]}" -f ""
refused 2 'unknown flag --keep' "${measure[@]}" --keep 20%
refused 2 'unknown flag --ouptut \(did you mean --output\?\)' "${measure[@]}" --ouptut x
[ ! -e "$stored" ] || fail "something was stored"
run 0 calibrate --help
shows '^ +-o, --output FILE'

# The table, and a file beside the model.
run 0 "${measure[@]}" -f "$work/text"
says_not 'warning|note'
shows '^texts +1, [0-9]{3} tokens$'
shows "^stored +$stored$"
shows '^  layer  head +5% +10% +20% +35% +50%$'
shows '^At 20% these 10 of [0-9]+ heads hold [0-9]+% of what is kept'
shows '^ +0 +[0-9.]+  #+$'
[ "$(ls "$work"/model.gguf*)" = "$model
$stored" ] || fail "not one file beside the model"
python3 - "$stored" <<'PY' || fail "the file is not as documented"
import json, sys
d = json.load(open(sys.argv[1]))
assert d["format"] == "winnow calibration" and d["version"] == 1
assert len(d["model"]["fingerprint"]) == 16 and d["texts"] == 1 and d["tokens"] >= 256
assert d["keep"] == [0.05, 0.1, 0.2, 0.35, 0.5]
heads = [h for layer in d["layers"] for h in layer["share"]]
for s in range(5):
    assert abs(sum(h[s] for h in heads) / len(heads) - 1) < 1e-4
    assert min(h[s] for h in heads) > 0
assert all(layer["rho"] > 0 and min(layer["gain"]) > 0 for layer in d["layers"])
PY

# The same text gives the same file, elsewhere, from standard input.
measure=(calibrate -m "$work/tiny.gguf" -t 1)
stored=$work/tiny.gguf.calibration.json
run 0 "${measure[@]}" -f "$work/text" -q
run 0 "${measure[@]}" -f - --json -o "$work/other.json" <"$work/text"
json "d['file'] == '$work/other.json' and d['texts'] == 1 and d['threads'] == 1"
json 'd["seconds"] > 0 and len(d["layers"][0]["share"][0]) == len(d["keep"]) == 5'
cmp -s "$stored" "$work/other.json" || fail "the same text gave another calibration"

# One that was named is used, and must be usable.
rm "$stored"
ask=(run -m "$work/tiny.gguf" -t 1 -f "$work/text" -p "Who?" -n 1 --keep 30%)
run 0 "${ask[@]}" --budget static --calibration "$work/other.json"
says_not 'warning|note'
[ ! -e "$stored" ] || fail "the model was calibrated again"
refused 1 "cannot use the calibration $work/text \(line 1" \
    "${ask[@]}" --budget static --calibration "$work/text"
refused 1 'cannot use the calibration .*it was made for another model' \
    "${ask[@]}" --budget static --calibration "$model.calibration.json"
run 0 "${ask[@]}" --budget head --calibration "$work/other.json"
says '^winnow: warning: --calibration is not used'
finish
