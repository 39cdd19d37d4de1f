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

run 0 bench perplexity --tokens 40 --budget 64 --policy streaming -q --json -t 1
fingerprint=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["model"]["fingerprint"])' "$work/out")
peer 0 peer_results.py --fingerprint "$WINNOW_MODEL"
[ "$out" = "$fingerprint" ] || fail "another fingerprint than the program's, $fingerprint"

cat >"$work/check.py" <<'PYTHON'
import json, sys
sys.path.insert(0, sys.argv[1])
import peer_results as pr
import peer_kvpress as pk
work, model = sys.argv[2], sys.argv[3]
header = pr.make_header(model, "tiny", 42, {"peer": "kvpress"})
def values(text, method, keep, kl, n_scored=64, **more):
    return dict(text=text, n_prefix=1500, n_scored=n_scored, method=method, keep=keep, seed=42, kl_mean=kl, **more)
path = work + "/peer"
first = pr.Results(path, header)
first.add("a", values("x", "kvpress: knorm", 0.2, 2.0, same_top=0.5, perplexity_ratio=3.0, n_before=100, n_after=20))
first.add("b", values("y", "kvpress: knorm", 0.2, 1.0, same_top=0.7, perplexity_ratio=2.0, n_before=100, n_after=20))
first.add("c", values("x", "kvpress: tova", 0.2, None))
first.file.write('{"cell": "cut')
first.file.close()
again = pr.Results(path, header)
assert list(again.cells) == ["a", "b", "c"]
again.add("d", values("x", "kvpress: none", 1.0, 0.0))
again.file.close()
assert list(pr.read(path)[1]) == ["a", "b", "c", "d"]
for other in (dict(header, seed=7), dict(header, settings={}), dict(header, model=dict(fingerprint="0"))):
    try:
        pr.Results(path, other)
    except pr.PeerError as error:
        assert "cannot go on with" in str(error)
    else:
        raise AssertionError("went on with other settings")
tables = pr.summarise(again.cells.values())
assert sorted(tables) == [(0.2, 1500), (1.0, 1500)]
knorm, tova = tables[0.2, 1500]
assert knorm["kl_mean"] == 1.5 and abs(knorm["same_top"] - 0.6) < 1e-12 and knorm["perplexity_ratio"] == 2.5
assert knorm["kept"] == 0.2 and knorm["texts"] == ["x", "y"] and knorm["n_scored"] == 128
assert tova["kl_mean"] is None and tova["kept"] is None
assert pr.finite(float("inf")) is None and pr.finite(1 / 3) == 0.333333333
ours = pr.Results(work + "/ours", dict(header, settings={"n_prefix": 1500}))
ours.add("1", values("x", "snapkv", 0.2, 0.5))
ours.add("2", values("x", "snapkv", 0.2, 9.0, n_scored=32))
ours.add("3", values("z", "snapkv", 0.2, 9.0))
# The presses have names, and cells are told apart by all that they depend on.
class Arguments:
    press, keep, prefix, scored, seed = None, [0.2, 0.1], 1500, 64, 42
cells = pk.cells_of(Arguments)
assert len(cells) == 1 + 2 * len(pk.PRESSES) and cells[0] == (None, 1.0)
names = {pk.cell_name(text, Arguments, *cell) for text in "xy" for cell in cells}
assert len(names) == 2 * len(cells)
PYTHON
last_command="the pure parts"
python3 -B "$work/check.py" "$tools" "$work" "$WINNOW_MODEL" 2>"$work/err" || fail "$(cat "$work/err")"

# Beside ours, on the texts and lengths that both have.
peer 0 peer_results.py "$work/peer" "$work/ours"
grep -q '^### keep 20 % of 1,500 tokens$' "$work/out" || fail "no heading"
grep -q '^| snapkv | 0.5000 | - | - | - | 1 | 64 |$' "$work/out" || fail "no row of ours"
grep -q '^| kvpress: knorm | 1.5000 | 60.0% | 2.5000 | 20.0% | 2 | 128 |$' "$work/out" || fail "no row of the peer"
echo 'my notes' >"$work/notes"
peer 1 peer_results.py "$work/notes"
says '^peer: cannot read .*notes \(not JSON'
peer 1 peer_results.py "$work/nothing"
says '^peer: .*nothing'

# Refused before anything is installed.
for wrong in "--keep 1.5" "--press nothing" "--prefix 20"; do
    # shellcheck disable=SC2086 # a flag and its value
    peer 1 peer_kvpress.py -m "$WINNOW_MODEL" --environment "$work/venv" $wrong
    says '^peer: '
    [ ! -e "$work/venv" ] || fail "something was installed"
done
peer 1 peer_kvpress.py -m /nonexistent/model.gguf
says '^peer: no model given'
peer 0 peer_kvpress.py --list
[[ $out == *"snapkv"* && $out == *"adakv(snapkv)"* ]] || fail "presses are missing"
finish
