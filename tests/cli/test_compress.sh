#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `winnow compress`, `winnow ask` and `winnow inspect FILE`: a document is compressed once, and
# questions are answered from the file.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

data=${WN_TEST_DATA:-$(dirname "$0")/..}
head -c 1500 "$data/../benchmarks/texts/narrative.txt" >"$work/text"
cat >"$work/short" <<'TEXT'
The harbour master keeps three boats. The red boat is called Wren and carries mail to the islands on
Mondays. The green boat is called Heron and carries salt, rope and lamp oil. The third boat has no
name and no paint; children say that it belongs to the sea.
TEXT
printf 'In winter all three boats lie under canvas behind the shed of Anders Holt.' >"$work/more"
boats=(-p "What is the red boat called?" -n 8)
made=$work/made
mkdir "$made"

# shows PATTERN: as says, for standard output.
shows() {
    grep -Eq -- "$1" "$work/out" || fail "standard output does not match: $1"
}

# texts: the answers in the JSON.
texts() {
    python3 -c 'import json, sys
print([a["text"] for a in json.load(open(sys.argv[1]))["answers"]])' "$work/out"
}

# ---- what is refused before anything is read ----
refused 2 'no document given' compress -o "$made/a.wkv"
refused 2 'no output given \(.*; name it with -o FILE.wkv\)' compress -f "$work/short"
refused 2 "unexpected word 'stray'" compress -f "$work/short" -o "$made/a.wkv" stray
refused 1 'cannot write .*nowhere/a.wkv \(No such file' \
    compress -f "$work/short" -o "$made/nowhere/a.wkv"
refused 1 'cannot write .*made \(it is not a file' compress -f "$work/short" -o "$made"
refused 2 'it is the model or a document' compress -f "$work/short" -o "$work/short"
printf 'precious' >"$work/precious"
refused 2 'no cache of Winnow' compress -f "$work/short" -o "$work/precious"
[ "$(cat "$work/precious")" = precious ] || fail "a file was replaced"
refused 2 '--max-error needs a policy that drops' compress -f "$work/short" -o "$work/a.wkv" \
    --policy full --max-error 0.1
if [ "$(id -u)" -ne 0 ]; then
    mkdir "$work/locked" && chmod 555 "$work/locked"
    refused 1 'Permission denied' compress -f "$work/short" -o "$work/locked/a.wkv"
fi
refused 1 'cannot open .*none' compress -f "$work/none" -o "$made/a.wkv"
refused 1 'longer than the context \([0-9]+ tokens, and -c allows 300; ' \
    compress -t 1 -f "$work/text" -c 300 -o "$made/a.wkv"
refused 2 'no FILE given' ask -p q
refused 2 'neither -p nor -i' ask "$made/a.wkv"
refused 1 '^winnow: cannot open the cache .*a.wkv \(No such file or directory; check the path\)$' \
    ask "$made/a.wkv" -p q
refused 1 'cannot open the cache .*made \(it is a folder; ' ask "$made" -p q
refused 1 'cannot use the cache .*short \(it is not a Winnow cache; name one made by winnow compress\)' \
    inspect "$work/short"
refused 2 '--keep does not go with a file' inspect "$made/a.wkv" --keep 20%
[ -z "$(ls -A "$made")" ] || fail "a file was left behind"
run 0 compress --help
shows 'default 10%\)'
shows 'default rehearsal\)'

# ---- the default: rehearsal, a tenth ----
file=$made/text.wkv
run 0 compress -t 1 -f "$work/text" -o "$file"
says_not 'warning|note'
says "^document +[0-9]+ tokens, $work/text$"
says '^policy +rehearsal, keep 10%, '
says '^entries +[0-9]+ kept per head \([0-9]+ to [0-9]+\) of [0-9]+: (9|10)\.[0-9] %'
says '^KV cache +[0-9.]+ MiB before, [0-9.]+ [KM]iB after: (9|10)\.[0-9]+ times smaller; '
says '^rehearsal +[0-9]+ tokens in '
says "^stored +$file, [0-9.]+ [KM]iB, in [0-9.]+ s$"
[ -z "$out" ] || fail "output besides the statistics"
[ "$(ls "$made")" = text.wkv ] || fail "not just the file in the folder"

# What is in it, told without a model.
WINNOW_MODEL='' run 0 inspect "$file"
shows "^file +$file, [0-9.]+ [KM]iB$"
shows "^model +fingerprint [0-9a-f]{16}, .*, $(realpath "$WINNOW_MODEL")$"
shows "^document +$work/text, 1,500 bytes$"
shows '^policy +rehearsal, keep 10%, select topk, budget rehearsal, fit bv$'
shows '^entries +[0-9]+ kept per head \([0-9]+ to [0-9]+\) of [0-9]+: (9|10)\.[0-9] %$'
shows '^layer +heads +min +mean +max +share +KV cache$'
[ "$(grep -Ec '^ +[0-9]+ +3 +[0-9]+ ' "$work/out")" -eq 30 ] || fail "not a line for each layer"
WINNOW_MODEL='' run 0 inspect "$file" --json
json 'd["meta"]["format"] == "winnow cache" and d["meta"]["program"].startswith("winnow ")' \
    'list(d["meta"]) == ["format", "program", "model", "documents", "document_tokens", "policy",
                          "kept"]' \
    'd["meta"]["model"]["path"] == "'"$(realpath "$WINNOW_MODEL")"'"' \
    'd["meta"]["documents"] == [{"name": "'"$work/text"'", "bytes": 1500}]' \
    'd["meta"]["document_tokens"] == d["file"]["tokens"] == d["file"]["token_ids"] > 300' \
    'd["meta"]["policy"]["policy"] == "rehearsal" and d["meta"]["policy"]["keep"] == "10%"' \
    'd["meta"]["kept"]["entries_after"] == d["totals"]["entries_after"] ==
      sum(sum(layer["kept"]) for layer in d["layers"])' \
    'd["totals"]["entries_before"] == 90 * d["file"]["tokens"]' \
    'd["file"]["bytes"] == '"$(stat -c %s "$file")"' > d["totals"]["kv_bytes"]'

# Questions: the same one twice from the same text gives the same answer, whatever came between.
river=(-t 1 -p "What is the river called?")
run 0 ask "$file" "${river[@]}" -p "Who is it about?" -p "What is the river called?" -n 8
shows '^> What is the river called\?$'
says '^loaded +[0-9]+ entries per head of [0-9]+ tokens in [0-9.]+ ms: (9|10)\.[0-9] %, KV cache '
says '^questions +3, of [0-9]+ to [0-9]+ tokens$'
says '^resident +[0-9.]+ MiB; the model file is '
says '^speed +question [0-9.]+ tok/s \([0-9]+ tokens\), answer [0-9.]+ tok/s'
headings=$(grep -n '^> ' "$work/out" | cut -d : -f 1 | tr '\n' ' ')
read -r _ second third <<<"$headings"
first=$(sed -n "2,$((second - 2))p" "$work/out")
[ -n "$first" ] || fail "no answer"
[ "$(tail -n +$((third + 1)) "$work/out")" = "$first" ] || fail "the same question, another answer"
says '^speed .*, 3 questions at once\)$'
run 0 ask "$file" "${river[@]}" -n 8 -q
[ "$out" = "$first" ] || fail "asked alone it is another answer"
[ -z "$err" ] || fail "-q is not quiet"

# What does not fit is refused before it is read: -c leaves the document and a few tokens.
n_tokens=$(python3 -c 'import struct, sys
print(struct.unpack_from("<Q", open(sys.argv[1], "rb").read(64), 32)[0])' "$file")
refused 1 "the question 'What is the river called\?' is too long \([0-9]+ tokens, and the context of $((n_tokens + 3)) has 2 left behind the document's $n_tokens; ask something shorter, or raise -c\)" \
    ask "$file" "${river[@]}" -c $((n_tokens + 3))

# ---- nothing dropped: the answers of `run` ----
export WINNOW_MODEL=$tiny_model
run 0 run -t 1 -f "$work/short" "${boats[@]}" -p "What does Heron carry?" --keep 100% --json
answers=$(texts)
for policy in foresight full; do
    run 0 compress -t 1 -f "$work/short" --policy "$policy" --keep 100% -o "$made/all.wkv" --json
    json 'd["compression"]["kept_share"] == 1 and d["settings"]["policy"] == "'"$policy"'"' \
        'd["file"]["bytes"] == '"$(stat -c %s "$made/all.wkv")" \
        'd["document"]["path"] == "'"$work/short"'" and "documents" not in d'
    run 0 ask "$made/all.wkv" -t 1 "${boats[@]}" -p "What does Heron carry?" --json
    [ "$(texts)" = "$answers" ] || fail "other answers than those of run"
    json 'len(d["answers"]) == 2 and d["interrupted"] is False' \
        'd["cache"]["kept_share"] == 1 and d["cache"]["load_seconds"] > 0' \
        'd["prompt"]["tokens_read"] == sum(a["question_tokens"] for a in d["answers"])'
done
answer=$(python3 -c 'import ast, sys; print(ast.literal_eval(sys.argv[1])[0])' "$answers")

# The same texts and flags give the same bytes; foresight, another policy.
run 0 compress -t 1 -f "$work/short" --policy foresight --keep 40% -o "$made/a.wkv" -q
[ -z "$out$err" ] || fail "-q is not quiet"
run 0 compress -t 1 -f - --policy foresight --keep 40% -o "$made/b.wkv" -q <"$work/short"
run 0 inspect "$made/b.wkv"
shows '^document +standard input, '
shows '^policy +foresight, keep 40%, select topk, budget foresight, fit bv$'
run 0 compress -t 1 -f "$work/short" --policy foresight --keep 40% -o "$made/b.wkv" -q
cmp -s "$made/a.wkv" "$made/b.wkv" || fail "the same text gave another file"
run 0 ask "$made/a.wkv" -t 1 "${boats[@]}" -q
[ -n "$out" ] || fail "no answer"

# ---- several files are one document ----
{ cat "$work/short" && echo && cat "$work/more"; } >"$work/both"
run 0 compress -t 1 -f "$work/both" --policy full -o "$made/one.wkv" -q
run 0 compress -t 1 -f "$work/short" -f "$work/more" --policy full -o "$made/two.wkv"
says "^document +[0-9]+ tokens, 2 files: $work/short, $work/more$"
run 0 inspect "$made/two.wkv" --json
json '[doc["bytes"] for doc in d["meta"]["documents"]] == ['"$(stat -c %s "$work/short")"', 74]'
run 0 ask "$made/one.wkv" -t 1 -p "Whose shed is it?" -n 8 -q
whose=$out
run 0 ask "$made/two.wkv" -t 1 -p "Whose shed is it?" -n 8 -q
[ "$out" = "$whose" ] || fail "two files are not what they are as one"
run 0 run -t 1 -f "$work/short" -f "$work/more" -p "Whose shed is it?" -n 8 --policy full --json
json 'd["answers"][0]["text"] == """'"$whose"'"""' \
    '[doc["path"] for doc in d["documents"]] == ["'"$work/short"'", "'"$work/more"'"]' \
    'd["document"]["path"] is None' \
    'd["document"]["bytes"] == sum(doc["bytes"] for doc in d["documents"]) + 1'
refused 2 'standard input is named 2 times' run -f - -f - -p q

# ---- asked line by line ----
printf '\nWhat is the red boat called?\n   \n/quit\nnot read\n' >"$work/lines"
run 0 ask "$made/all.wkv" -t 1 -i -n 8 <"$work/lines"
[ "$out" = "> What is the red boat called?
$answer" ] || fail "not the answer to the line"
says '^winnow: loaded [0-9]+ entries per head of [0-9]+ tokens in [0-9.]+ ms$'
says '^questions +1$'
printf 'What is the red boat called?\nWhat is the red boat called?' >"$work/lines"
run 0 ask "$made/all.wkv" -t 1 -i -n 8 -q <"$work/lines"
[ "$out" = "> What is the red boat called?
$answer

> What is the red boat called?
$answer" ] || fail "the second line does not see the document as it was"
[ -z "$err" ] || fail "-q is not quiet"
run 0 ask "$made/all.wkv" -t 1 -p - -n 8 -q <<<"What is the red boat called?"
[ "$out" = "$answer" ] || fail "the question from standard input is answered differently"
# A line that is too long is refused, and the next one answered.
{ printf 'and so on %.0s' {1..400} && printf '\nWhat is the red boat called?\n'; } >"$work/lines"
run 1 ask "$made/all.wkv" -t 1 -i -n 8 -c 400 <"$work/lines"
says "^winnow: the question 'and so on .*' is too long"
[ "$(tail -n 1 "$work/out")" = "$answer" ] || fail "a refused question ended it"

# On a terminal: lines are edited, Ctrl-C stops an answer and not the program, and at the prompt it
# ends it.
WINNOW_MODEL=$real_model run 0 compress -t 1 -f "$work/more" --policy full -o "$made/real.wkv" -q
last_command="ask -i, on a terminal"
terminal_python - "$WINNOW_BIN" "$made/real.wkv" >"$work/terminal" <<'PYTHON' || fail "not as it should be on a terminal: $(tail -n 3 "$work/terminal")"
import sys
from terminal import Terminal, was_interrupted
terminal = Terminal(sys.argv[1], "ask", sys.argv[2], "-t", "1", "-i", "-n", "2000",
                    "--temp", "2", "--top-k", "0", "--top-p", "1", "--min-p", "0")
terminal.wait_for_prompt()
# A letter too many is taken back.
terminal.type("Tell a tale of a Möwex\x7f.\r".encode())
terminal.wait_for("Möwe".encode())
terminal.wait_for(b"\n")
terminal.wait_for(b" ")
terminal.type(b"\x03")
terminal.wait_for(b"winnow: stopped on request")
terminal.wait_for_prompt()
terminal.type(b"\x03")
status = terminal.ended()
sys.exit(0 if was_interrupted(status) else f"{status}")
PYTHON

# ---- the model ----
other=$work/other.gguf
cp "$WINNOW_MODEL" "$other"
chmod u+w "$other"
python3 - "$other" <<'PYTHON'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(-1000, 2)
    byte = f.read(1)[0]
    f.seek(-1000, 2)
    f.write(bytes([byte ^ 1]))
PYTHON
refused 1 '^winnow: cannot use the cache .*all.wkv \(-m names another model than the one that made it, /.*; name that one with -m\)$' \
    ask "$made/all.wkv" -m "$other" -p q
refused 1 'cannot use the model .*none' ask "$made/all.wkv" -m "$work/none" -p q
# The file remembers its model; without it the environment's is used, if there is one.
WINNOW_MODEL=$other run 0 ask "$made/all.wkv" -t 1 "${boats[@]}" -q
[ "$out" = "$answer" ] || fail "the remembered model gives another answer"
ln -s "$(realpath "$WINNOW_MODEL")" "$work/link.gguf"
run 0 compress -t 1 -m "$other" -f "$work/more" --policy full -o "$made/other.wkv" -q
rm "$other"
refused 1 'WINNOW_MODEL names another model than the one that made it, ' ask "$made/other.wkv" -p q
WINNOW_MODEL='' refused 1 "^winnow: no model for the cache .*other.wkv \(the one that made it is not any more at $other; name it with -m\)$" \
    ask "$made/other.wkv" -p q
run 0 ask "$made/all.wkv" -m "$work/link.gguf" -t 1 "${boats[@]}" -q
[ "$out" = "$answer" ] || fail "the model by another name gives another answer"

# ---- damaged files ----
head -c 5000 "$made/all.wkv" >"$made/cut.wkv"
for words in "ask -p q" inspect; do
    # shellcheck disable=SC2086 # several words
    refused 1 '^winnow: cannot use the cache .*cut.wkv \(it is cut short \(5000 of [0-9]+ bytes are there\); make it anew with winnow compress\)$' \
        $words "$made/cut.wkv"
done
python3 - "$made/all.wkv" "$made/bad.wkv" <<'PYTHON'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[-100] ^= 1
open(sys.argv[2], "wb").write(data)
PYTHON
refused 1 '^winnow: cannot use the cache .*bad.wkv \(it is damaged: .*; make it anew with winnow compress\)$' \
    ask "$made/bad.wkv" -t 1 -p q

# ---- what stands at the path ----
refused 2 'cannot go to standard output \(.*; name one, or ./- for' compress -f "$work/short" -o -
run 0 inspect "$made/all.wkv"
shows '^policy +full$'
# Written through a link, with the rights that the file had.
ln -s target.wkv "$made/link.wkv"
cp "$made/all.wkv" "$made/target.wkv"
chmod 640 "$made/target.wkv"
run 0 compress -t 1 -f "$work/more" --policy full -o "$made/link.wkv" -q
[ -L "$made/link.wkv" ] || fail "the link was replaced"
[ "$(stat -c %a "$made/target.wkv")" = 640 ] || fail "the rights changed"
cmp -s "$made/target.wkv" "$made/all.wkv" && fail "the link's file was not written"
# Too large for the limit of file sizes: said, and nothing left.
before=$(ls "$made"; cksum <"$made/target.wkv")
(ulimit -f 40 && "$WINNOW_BIN" compress -t 1 -f "$work/more" --policy full -o "$made/target.wkv") \
    >"$work/out" 2>"$work/err" && fail "a file larger than allowed"
says 'cannot write .*target.wkv \(File too large\)'
[ "$(ls "$made"; cksum <"$made/target.wkv")" = "$before" ] || fail "a failed write left something"
# Changed in place while it is open.
cp "$made/all.wkv" "$made/changed.wkv"
last_command="ask -i, of a file that is changed"
# shellcheck disable=SC2094 # the loop waits for what the program writes
{
    echo "What is the red boat called?"
    # Once the first answer is there.
    for _ in {1..600}; do
        [ "$(wc -l <"$work/out")" -lt 2 ] || break
        sleep 0.1
    done
    cp "$made/target.wkv" "$made/changed.wkv"
    echo "And the green one?"
} | "$WINNOW_BIN" ask "$made/changed.wkv" -t 1 -i -n 3 -q >"$work/out" 2>"$work/err"
[ "${PIPESTATUS[1]}" -eq 1 ] || fail "a file that was changed is read on"
says 'changed.wkv was changed while it was open \(.*; ask again\)$'
# A weight in the middle of the model.
cp "$WINNOW_MODEL" "$other"
chmod u+w "$other"
run 0 compress -t 1 -m "$other" -f "$work/more" --policy full -o "$made/middle.wkv" -q
printf 'winnow' | dd of="$other" bs=1 seek=$(($(stat -c %s "$other") / 2)) conv=notrunc 2>/dev/null
python3 - "$other" <<'PYTHON'
import os, sys
size = os.path.getsize(sys.argv[1])
with open(sys.argv[1], "r+b") as f:
    f.seek((size - 4096) // 256 * 128)
    f.write(b"winnow")
PYTHON
refused 1 'middle.wkv \(.*other.gguf is not any more the model that made it; name that one with -m, ' \
    ask "$made/middle.wkv" -p q
rm "$other"

# ---- interrupted: the older file stays, and nothing else ----
if grep -q SigCgt /proc/self/status 2>/dev/null; then
    before=$(ls "$made"; cksum <"$made/all.wkv")
    last_command="compress, interrupted"
    WINNOW_MODEL=$real_model WINNOW_CPU=reference python3 - "$work" "$WINNOW_BIN" compress -t 1 -f "$work/text" \
        -o "$made/all.wkv" <<'PYTHON' || fail "did not stop as it should"
import re, signal, subprocess, sys, time
work, command = sys.argv[1], sys.argv[2:]
with open(work + "/out", "wb") as out, open(work + "/err", "wb") as err:
    process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        caught = re.search(r"SigCgt:\s*(\w+)", open(f"/proc/{process.pid}/status").read())
        if int(caught[1], 16) >> (signal.SIGINT - 1) & 1:
            break
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    status = process.wait(timeout=30)
sys.exit(0 if status == 130 else 1)
PYTHON
    out=$(cat "$work/out")
    err=$(cat "$work/err")
    says '^winnow: stopped on request after reading [0-9,]+ tokens \(nothing was stored\)$'
    [ -z "$out" ] || fail "output of something that was stopped"
    [ "$(ls "$made"; cksum <"$made/all.wkv")" = "$before" ] || fail "the files are not as before"
fi
# Budgets from an error: the file remembers what was asked for.
run 0 compress -t 1 -f "$work/text" -o "$work/fitted.wkv" --max-error 0.3 --json
json '0 < d["fitted"]["error_largest"] <= 0.3' \
    'd["compression"]["entries_after"] == sum(d["fitted"]["kept_per_head"]) + 90 * 32'
run 0 inspect "$work/fitted.wkv"
shows '^policy +rehearsal, keep max-error 0\.3, select topk, budget fitted'
run 0 ask "$work/fitted.wkv" -t 1 -p "Who is it about?" -n 4 -q
[ -n "$out" ] || fail "no answer from budgets that were fitted"
finish
