#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The peer's results: its files are in the program's format, with the program's fingerprint, and its
# tables are those of the cells. What measures needs torch and is not tested here.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
WINNOW_MODEL=$tiny_model
tools=$(dirname "$0")/../../tools

# peer STATUS ARGUMENTS...: like run.
peer() {
    local expected=$1 status=0
    shift
    last_command="peer $*"
    python3 -B "$tools/$1" "${@:2}" >"$work/out" 2>"$work/err" || status=$?
    out=$(cat "$work/out")
    err=$(cat "$work/err")
    [ "$status" -eq "$expected" ] || fail "exit status $status instead of $expected"
}

run 0 bench perplexity -f "$tools/../benchmarks/texts/narrative.txt" --tokens 40 --budget 64 --policy streaming -q --json -t 1
cp "$work/out" "$work/program"
fingerprint=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["model"]["fingerprint"])' "$work/out")
peer 0 peer_results.py --fingerprint "$WINNOW_MODEL"
[ "$out" = "$fingerprint" ] || fail "another fingerprint than the program's, $fingerprint"

cat >"$work/check.py" <<'PYTHON'
import collections, json, os, sys
sys.path.insert(0, sys.argv[1])
import peer_results as pr
import peer_kvpress as pk
work, model = sys.argv[2], sys.argv[3]
lengths = {"n_prefix": 1500, "n_scored": 64}
header = pr.make_header(model, "tiny", 42, dict(lengths, peer="kvpress", k_type="f32", v_type="f32"))
def values(text, method, keep, kl, digest=None, seed=42, **more):
    text_hash = digest or "hash of " + text
    return dict(text=text, text_hash=text_hash, method=method, keep=keep, seed=seed, kl_mean=kl, **lengths, **more)
def refused(part, call, *arguments):
    try:
        call(*arguments)
    except pr.PeerError as error:
        assert part in str(error) and "\n" not in str(error), str(error)
    else:
        raise AssertionError("not refused: " + part)
def write(name, head, cells):
    path = work + "/" + name
    if os.path.exists(path):
        os.remove(path)
    results = pr.Results(path, head)
    for i, cell in enumerate(cells):
        results.add(str(i), cell)
    results.file.close()
    return path

# Files grow, go on after a line that was cut off, and are not mixed.
kept = dict(n_before=100, n_after=20)
path = write("peer", header, [
    values("x", "kvpress: knorm", 0.2, 2.0, same_top=0.5, perplexity_ratio=3.0, **kept),
    values("y", "kvpress: knorm", 0.2, 1.0, same_top=0.7, perplexity_ratio=2.0, **kept),
    values("x", "kvpress: tova", 0.2, 0.25),
])
open(path, "a").write('{"cell": "cut')
again = pr.Results(path, header)
assert list(again.cells) == ["0", "1", "2"]
again.add("3", values("y", "kvpress: tova", 0.2, None))
again.add("4", values("x", "kvpress: none", 1.0, 0.0))
again.file.close()
assert list(pr.read(path)[1]) == ["0", "1", "2", "3", "4"]
for other in (dict(header, seed=7), dict(header, settings={}), dict(header, model=dict(fingerprint="0"))):
    refused("cannot go on with", pr.Results, path, other)
joined = open(path).read() + json.dumps(header) + "\n" + json.dumps({"cell": "z", "values": {}}) + "\n"
open(work + "/joined", "w").write(joined)
assert list(pr.read(work + "/joined")[1]) == ["0", "1", "2", "3", "4", "z"]
# What is no file of results says so in a sentence.
first = json.dumps(header)
for text, part in (
    ("my notes\n", "line 1 is not JSON"), ("\xff\n", "line 1 is not JSON"), ("[" * 100000 + "\n", "is not JSON"),
    ("[1]\n", "line 1 is no object"), (first + "\n7\n", "line 2 is no object"), ('{"a":NaN}\n', "is not JSON"),
    (first + '\n{"cell":"a","values":3}\n', "line 2 holds no results"), (first, "it holds no results"),
    ('{"cell":"a","values":{}}\n', "line 1 holds no results"),
    ('{"format":"winnow results"}\n', "line 1 is a damaged header"),
    (first + '\n{"cell":"a","values":{}}' * 2 + "\n", "line 3 repeats a cell"),
    (first + "\n" + json.dumps(dict(header, seed=7)) + "\n", "line 2 begins other results"),
):
    open(work + "/damaged", "wb").write(text.encode("latin-1"))
    refused(part, pr.read, work + "/damaged")
for wrong in ({"text_hash": None}, {"kl_mean": "much"}, {"keep": None}):
    damaged = write("wrong", header, [{**values("x", "a", 0.2, 1.0), **wrong}])
    refused("has no " + next(iter(wrong)), pr.read_fidelity, damaged)

# One KL that is infinite makes the mean so, and the method the last.
tables = pr.summarise(pr.read(path)[1].values())
assert sorted(tables) == [0.2, 1.0]
(knorm, tova), n_left_out = tables[0.2]
assert n_left_out == 0 and knorm["method"] == "kvpress: knorm"
assert knorm["kl_mean"] == 1.5 and abs(knorm["same_top"] - 0.6) < 1e-12 and knorm["perplexity_ratio"] == 2.5
assert knorm["kept"] == 0.2 and knorm["texts"] == ["x", "y"] and knorm["n_scored"] == 128
assert tova["kl_mean"] is None and tova["kept"] is None
assert pr.mean([]) is None and pr.mean([1, None]) is None and pr.mean([1, 2]) == 1.5
assert pr.finite(float("inf")) is None and pr.finite(float("nan")) is None and pr.finite(1 / 3) == 0.333333333
# The seeds of a text are averaged first; a text of another content is another text; a text that one method lacks
# counts for none.
tables = pr.summarise([
    values("x", "a", 0.2, 1.0), values("x", "a", 0.2, 3.0, seed=43), values("y", "a", 0.2, 5.0),
    values("x", "b", 0.2, 4.0), values("y", "b", 0.2, 4.5),
    values("x", "a", 0.1, 1.0), values("y", "a", 0.1, 7.0),
    values("y", "b", 0.1, 8.0), values("x", "b", 0.1, 9.0, "other"),
    values("x", "a", 0.5, 1.0), values("y", "b", 0.5, 1.0),
])
assert [(r["method"], r["kl_mean"], r["n_scored"]) for r in tables[0.2][0]] == [("a", 3.5, 128), ("b", 4.25, 128)]
assert [(r["method"], r["kl_mean"], r["texts"]) for r in tables[0.1][0]] == [("a", 7.0, ["y"]), ("b", 8.0, ["y"])]
assert tables[0.2][1] == 0 and tables[0.1][1] == 2 and tables[0.5] == ([], 2)

# Ours: f16 is as exact as the peer's f32; other lengths and coarser types are another comparison.
ours = dict(header, settings=dict(lengths, k_type="f16", v_type="f16"))
snapkv = [values("x", "snapkv", 0.2, 0.5), values("z", "snapkv", 0.2, 9.0), values("x", "snapkv", 0.4, 9.0)]
write("ours", ours, snapkv)
write("none", ours, [values("x", "snapkv", 0.2, 0.5, "other")])
for name, value in (("n_prefix", 1000), ("n_scored", 32), ("k_type", "q8_0"), ("v_type", "q4_0")):
    other = dict(ours, settings=dict(ours["settings"], **{name: value}))
    refused(f"its {name} is {value}", pr.read_pair, write("other", other, snapkv), header)
refused("another model", pr.read_pair, write("other", dict(ours, model=dict(fingerprint="0")), snapkv), header)
refused("no fidelity", pr.read_pair, write("other", dict(ours, benchmark="ratio"), snapkv), header)

# Tokens are those of the bytes, line ends included, and a hash is the program's.
open(work + "/crlf", "wb").write("a\r\nb\rñ\n".encode())
assert pr.read_text(work + "/crlf") == ("a\r\nb\rñ\n".encode(), "a\r\nb\rñ\n")
for data in (b"a\xff", b"a\0b"):
    open(work + "/binary", "wb").write(data)
    refused("no text in UTF-8", pr.read_text, work + "/binary")
try:
    import xxhash
except ImportError:
    pass
else:
    for cell in json.load(open(work + "/program"))["cells"]:
        data, _ = pr.read_text(os.path.join(pr.ROOT, "benchmarks/texts", cell["values"]["text"] + ".txt"))
        assert pr.text_hash(data) == cell["values"]["text_hash"]

# The presses have names, and cells are told apart by all that they depend on.
class Arguments:
    model, press, keep, prefix, scored, seed, winnow = model, None, [0.2, 0.1], 1500, 64, 42, None
cells = pk.cells_of(Arguments)
assert len(cells) == 1 + 2 * len(pk.PRESSES) and cells[0] == (None, 1.0)
names = {pk.cell_name(text, Arguments, *cell) for text in ("x#1", "x#2") for cell in cells}
assert len(names) == 2 * len(cells)
assert pk.make_settings(Arguments).items() >= dict(lengths, k_type="f32").items()
path = work + "/crlf"
Lengths = collections.namedtuple("Lengths", "prefix scored")
pr.text_hash = lambda data: f"{len(data)} bytes"
assert pk.read_source(path, list, Lengths(4, 3)) == ("crlf", "8 bytes", list("a\r\nb\rñ\n"))
refused("has 7 tokens (it needs 8", pk.read_source, path, list, Lengths(4, 4))
assert pk.check_kl(0.0, 0.25, 0.25).endswith("used plainly 0.250000")
for wrong in ((1.0, 0.5, 0.5), (0.0, 0.5, 0.6), (None, 0.5, 0.5), (0.0, None, None)):
    refused("not measured as it works", pk.check_kl, *wrong)
assert not pk.is_complete(work, ["a==1"])
open(work + "/complete", "w").write("a==1\nb==2\n")
assert pk.is_complete(work, ["a==1", "b==2"]) and not pk.is_complete(work, ["a==1", "b==3"])
PYTHON
last_command="the pure parts"
python3 -B "$work/check.py" "$tools" "$work" "$WINNOW_MODEL" 2>"$work/err" || fail "$(cat "$work/err")"

# Beside ours, on the texts and at the shares that both have.
peer 0 peer_results.py "$work/peer"
grep -q '^| kvpress: knorm | 1.5000 | 60.0% | 2.5000 | 20.0% | 2 | 128 |$' "$work/out" || fail "no row of the peer"
grep -q '^| kvpress: tova | - | - | - | - | 2 | 128 |$' "$work/out" || fail "an infinite KL has a mean"
peer 0 peer_results.py "$work/peer" "$work/ours"
grep -q '^### keep 20 % of 1,500 tokens$' "$work/out" || fail "no heading"
grep -q '^| snapkv | 0.5000 | - | - | - | 1 | 64 |$' "$work/out" || fail "no row of ours"
grep -q '^| kvpress: knorm | 2.0000 | 50.0% | 3.0000 | 20.0% | 1 | 64 |$' "$work/out" || fail "rows of other texts"
grep -q 'results left out: 3\.$' "$work/out" || fail "nothing said of what is left out"
grep -q '40 %' "$work/out" && fail "a share that the peer lacks"
peer 1 peer_results.py "$work/peer" "$work/none"
says '^peer: cannot compare with .*no text is in both'
peer 1 peer_results.py "$work/crlf"
says '^peer: cannot read .*crlf \(line 1 is not JSON'
peer 1 peer_results.py "$work/nothing"
says '^peer: .*nothing'

# Refused before anything is installed.
for wrong in "--keep 1.5" "--press nothing" "--prefix 20" "--scored 1" "--press tova --press tova" \
    "--keep 0.2 --keep .2"; do
    # shellcheck disable=SC2086 # flags and their values
    peer 1 peer_kvpress.py -m "$WINNOW_MODEL" --environment "$work/venv" $wrong
    says '^peer: '
    [ ! -e "$work/venv" ] || fail "something was installed"
done
peer 1 peer_kvpress.py -m /nonexistent/model.gguf
says '^peer: no model given'
peer 0 peer_kvpress.py --list
[[ $out == *"snapkv"* && $out == *"adakv(snapkv)"* ]] || fail "presses are missing"
finish
