#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A model that foresight does not suit: one in two files, of which the first lacks a tensor that
# foresight looks at. The policy that nobody named is replaced, and one that was named is refused.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
export WINNOW_MODEL=$tiny_model

python3 - "$WINNOW_MODEL" "$work" <<'PYTHON' || fail "the model cannot be split"
import struct, sys
source, folder = sys.argv[1:]
data = open(source, "rb").read()
at = 24
def number(form):
    global at
    at += struct.calcsize(form)
    return struct.unpack_from(form, data, at - struct.calcsize(form))[0]
def string():
    global at
    n = number("<Q")
    at += n
    return data[at - n:at]
def skip(kind):
    global at
    if kind == 8:
        string()
    elif kind == 9:
        inner, n = number("<I"), number("<Q")
        for _ in range(n):
            skip(inner)
    else:
        at += (1, 1, 2, 2, 4, 4, 4, 1, None, None, 8, 8, 8)[kind]
n_tensors, n_pairs = struct.unpack_from("<QQ", data, 8)
for _ in range(n_pairs):
    string()
    skip(number("<I"))
pairs = data[24:at]
tensors = []
for _ in range(n_tensors):
    name = string()
    shape = [number("<Q") for _ in range(number("<I"))]
    tensors.append([name, shape, number("<I"), number("<Q")])
base = (at + 31) // 32 * 32
ends = sorted(t[3] for t in tensors) + [len(data) - base]
def pair(key, kind, form, value):
    return struct.pack("<Q", len(key)) + key + struct.pack("<I" + form, kind, value)
def write(idx, chosen, more, n_more):
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(chosen), n_more + 3) + more
    head += pair(b"split.no", 2, "H", idx) + pair(b"split.count", 2, "H", 2)
    head += pair(b"split.tensors.count", 5, "i", n_tensors)
    body = b""
    parts = []
    size = 0
    for name, shape, kind, offset in chosen:
        part = data[base + offset:base + min(e for e in ends if e > offset)]
        part += bytes(-len(part) % 32)
        head += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}QIQ", *shape, kind, size)
        parts.append(part)
        size += len(part)
    with open(f"{folder}/split-{idx + 1:05}-of-00002.gguf", "wb") as out:
        out.write(head + bytes(-len(head) % 32))
        out.writelines(parts)
moved = b"blk.3.attn_output.weight"
write(0, [t for t in tensors if t[0] != moved], pairs, n_pairs)
write(1, [t for t in tensors if t[0] == moved], b"", 0)
PYTHON
split=$work/split-00001-of-00002.gguf
ask=(-t 1 -m "$split" -p "Name three rivers and say where each of them flows.")
note='^winnow: note: policy min-h is used \(foresight does not suit the model: the model file has no tensor blk\.3\.attn_output\.weight '

run 0 run "${ask[@]}" -n 2 --keep 60%
says "$note"
[ "$(grep -c 'note: policy' "$work/err")" -eq 1 ] || fail "the note is repeated"
says '^policy +min-h, keep 60%, select sample \(tau 1, seed 0\), group mean, sink auto, recent auto$'
run 0 run "${ask[@]}" -n 2 --keep 60% --seed 3 --json -q
[ -z "$err" ] || fail "-q is not quiet"
json 'd["settings"]["policy"] == "min-h" and d["settings"]["budget"] == "head"'
json 'd["settings"]["select"] == "sample" and d["settings"]["seed"] == 3'
run 0 inspect "${ask[@]}" --budget adaptive --json
says "$note"
json 'd["settings"]["policy"] == "min-h" and d["settings"]["budget"] == "adaptive"'
echo "The Elbe flows to the North Sea, the Danube to the Black Sea." >"$work/text"
run 0 compress -t 1 -m "$split" -f "$work/text" --keep 60% -o "$work/rivers.wkv"
says '^winnow: note: policy min-h is used \(rehearsal does not suit the model: '
run 0 inspect "$work/rivers.wkv" --json
json 'd["meta"]["policy"]["policy"] == "min-h" and d["meta"]["policy"]["keep"] == "60%"'
run 0 ask "$work/rivers.wkv" -t 1 -p "Where does the Elbe flow?" -n 4 -q
[ -n "$out" ] || fail "no answer"

# What was named is not replaced.
for words in "--policy foresight" "--budget rehearsal" "--policy snapkv --fit bv"; do
    # shellcheck disable=SC2086 # several words
    refused 1 '^winnow: the model does not suit what was asked for \(the model file has no tensor .*; leave out --policy, --budget and --fit, or choose --policy min-h\)$' \
        run "${ask[@]}" $words
done
refused 1 'does not suit what was asked for' inspect "${ask[@]}" --policy foresight
run 0 run "${ask[@]}" -n 2 --policy snapkv --window 4
says_not 'note: policy'
finish
