#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `winnow chat`: turns, commands, saving and going on, and what is refused.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

cat >"$work/boats" <<'TEXT'
The harbour master keeps three boats. The red boat is called Wren and carries mail to the islands on
Mondays. The green boat is called Heron and carries salt, rope and lamp oil.
TEXT
made=$work/made
mkdir "$made"
greedy=(-t 1 --temp 0 -n 12)

# chat STATUS LINES ARGUMENTS...: talks by lines, with printf's escapes.
chat() {
    local expected=$1 lines=$2
    shift 2
    printf "%b" "$lines" >"$work/lines"
    run "$expected" chat "$@" <"$work/lines"
}

# reply N: the N-th reply, of one line.
reply() {
    grep -v '^$' "$work/out" | awk -v n="$1" '/^> / { i++; next } i == n'
}

# ---- what is refused before anything is read ----
refused 2 'unknown flag --keep' chat --keep 20%
refused 2 '--load and -f exclude each other' chat --load a.wkv -f "$work/boats"
refused 2 'the document cannot come from standard input' chat -f -
refused 2 '--decode-budget is refused' chat --decode-budget 0
refused 2 "--decode-budget 9,000 is more than the context \(it holds 8,192 tokens" \
    chat --decode-budget 9000
refused 1 'cannot open the cache .*none.wkv \(No such file' chat --load "$made/none.wkv"
refused 1 'cannot use the cache .*boats \(it is not a Winnow cache' chat --load "$work/boats"
refused 1 'cannot open .*none' chat -f "$work/none"
refused 1 'the prompt is longer than the context' \
    chat -t 1 -f "$work/boats" -c 40 --decode-budget none
run 0 help chat
[[ $out == *"--load FILE"* && $out == *"-sys, --system TEXT"* && $out == *"--decode-budget N"* ]] ||
    fail "incomplete help"

# ---- turns see those before them ----
chat 0 'My name is Anna.\n\nSay goodbye to me by name.\n' "${greedy[@]}"
says '^winnow: .*, context 8,192 tokens, budget 2,048 entries per head; /help lists commands$'
says '^turns +2, [0-9]+ tokens in a context of 8,192$'
says '^budget +2,048 entries a head \+ 128, not reached'
says '^speed +reading [0-9.]+ tok/s \([0-9]+ tokens\), replies [0-9.]+ tok/s'
[ "$(grep -c '^> ' "$work/out")" -eq 2 ] || fail "not two turns"
[[ $(reply 2) == *Anna* ]] || fail "the second turn does not know the first"
first=$(reply 1)
# The first turn alone is what run answers.
run 0 run "${greedy[@]}" -p "My name is Anna." --policy full -q
[ "$first" = "$out" ] || fail "the first turn is not what run answers"

# ---- saving and going on gives the same replies ----
export WINNOW_MODEL=$tiny_model
chat 0 'My name is Anna.\nSay goodbye to me by name.\n' "${greedy[@]}" -q
first=$(reply 1)
second=$(reply 2)
chat 0 "My name is Anna.\n/save $made/a.wkv\nSay goodbye to me by name.\n/save $made/b.wkv
/undo\nSay goodbye to me by name.\n/regen\n/clear\nSay goodbye to me by name." "${greedy[@]}"
says "^winnow: saved 1 turn, [0-9]+ tokens, to $made/a.wkv$"
says "^winnow: saved 2 turns, [0-9]+ tokens, to $made/b.wkv$"
[ "$(reply 1)/$(reply 2)" = "$first/$second" ] || fail "saving changed a reply"
says '^winnow: the last turn is taken back$'
[ "$(grep -cFx -- "$second" "$work/out")" -eq 3 ] ||
    fail "what was taken back, or the reply again, is another at temperature 0"
says '^winnow: note: --temp 0 gives the same reply each time$'
says '^winnow: a new conversation$'
says '^turns +1, '
[ "$(tail -n 1 "$work/out")" != "$second" ] || fail "a new conversation knows the old one"
# The file remembers its model.
WINNOW_MODEL='' chat 0 'Say goodbye to me by name.\n' "${greedy[@]}" --load "$made/a.wkv"
says '^winnow: loaded 1 turn, [0-9]+ tokens, in [0-9.]+ ms$'
says '^> My name is Anna\.$'
[ "$(reply 1)" = "$second" ] || fail "what was loaded gives another reply"
says '^turns +2, '
chat 0 "/load $made/a.wkv\nSay goodbye to me by name.\n/save $made/c.wkv\n" "${greedy[@]}" -q
[ "$(reply 1)" = "$second" ] || fail "/load gives another reply"
WINNOW_MODEL='' run 0 inspect "$made/b.wkv"
grep -q '^chat       2 turns$' "$work/out" || fail "no line on the turns"
grep -q '^policy     foresight, keep 2048, ' "$work/out" || fail "no policy"
tokens() {
    run 0 inspect "$1" --json
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1])); print(d["file"]["tokens"], d["totals"]["entries_after"])' "$work/out"
}
[ "$(tokens "$made/b.wkv")" = "$(tokens "$made/c.wkv")" ] || fail "going on gives another text"
run 0 inspect "$made/b.wkv" --json
json 'd["file"]["tokens"] == d["file"]["token_ids"] and d["meta"]["conversation"]["system"] is None'
json 'd["meta"]["conversation"]["turns"] == 2 and d["meta"]["conversation"]["place"] == "answered"'
json 'd["meta"]["conversation"]["transcript"][1]["user"] == "Say goodbye to me by name."'
json 'd["meta"]["conversation"]["transcript"][1]["answer"] == """'"$second"'"""'
json 'd["meta"]["conversation"]["settings"]["predict"] == 12'
json 'd["meta"]["conversation"]["budget"]["per_head"] == 2048'
json 'd["meta"]["model"]["path"] == "'"$(realpath "$WINNOW_MODEL")"'"'
refused 1 'it holds a conversation; go on with it by winnow chat --load' ask "$made/a.wkv" -p q

# ---- other replies ----
WINNOW_MODEL=$real_model chat 0 'Tell a tale.\n/regen\n' -t 1 -n 24 --temp 1.5 -q
[ "$(grep -v '^$' "$work/out" | sed -n 2p)" != "$(grep -v '^$' "$work/out" | sed -n 3p)" ] ||
    fail "the same reply again"

# ---- commands that are refused, and go on ----
chat 1 "/sav x\n/save\n/undo\n/regen\n/save $made/none.wkv\n/load $made/none.wkv\n/compress\n/compress x\n/budget 0\n/clear now\nMy name is Anna.\n" \
    "${greedy[@]}"
says '^winnow: unknown command /sav \(did you mean /save\?\)$'
says '^winnow: /save needs a value \(write /save FILE\)$'
says '^winnow: there is no turn to take back '
says '^winnow: there is no reply to replace '
says '^winnow: there is nothing to save \(say something first\)$'
says '^winnow: cannot open the cache .*none.wkv \(No such file'
says '^winnow: there is nothing to compress '
says "^winnow: /budget is refused \('0' is too little; give entries per head, auto or none\)$"
says '^winnow: /clear takes no value '
[ "$(reply 1)" = "$first" ] || fail "what was refused changed the reply"
[ ! -e "$made/none.wkv" ] || fail "a file was left behind"
chat 1 "Hello\n/save $made\n/save $made/no/x.wkv\n/save $WINNOW_MODEL\n/compress 0\n" "${greedy[@]}" -q
says "^winnow: cannot write $made \(it is not a file"
says "^winnow: cannot write $made/no/x.wkv \(No such file"
says '^winnow: cannot write .* \(it is the model or a document, which would be replaced'
says '^winnow: /compress is refused \('
chat 0 '/help\n/system Be brief.\n/budget\n/budget none\n/budget 500\n/quit\nnot said\n' "${greedy[@]}"
for command in help stats save load compress budget undo regen clear system quit; do
    says "^  /$command"
done
says '^winnow: budget: 2,048 entries per head, and 128 above it$'
says '^winnow: budget: none$'
says '^winnow: a new conversation, with the system prompt$'
says '^winnow: budget: 500 entries per head, and 32 above it$'
[ -z "$out" ] || fail "something was said after /quit"

# ---- several lines are one turn ----
chat 0 'My name\\\nis Anna.\n"""\nSay goodbye\nby name."""\n//quit\n' "${greedy[@]}" -q
[ "$(grep -c '^> ' "$work/out")" -eq 3 ] || fail "not three turns"
grep -qx '> My name' "$work/out" || fail "the first turn is cut"
grep -qx 'by name.' "$work/out" || fail "the second turn is cut"
grep -qx '> /quit' "$work/out" || fail "// is not a slash that is said"

# ---- documents ----
boats='What is the red boat called?\n'
WINNOW_MODEL=$real_model run 0 run "${greedy[@]}" -f "$work/boats" -p "What is the red boat called?" \
    --policy full -q
answer=$out
[[ $answer == *Wren* ]] || fail "the document does not help"
WINNOW_MODEL=$real_model chat 0 "$boats" "${greedy[@]}" -f "$work/boats"
[ "$(reply 1)" = "$answer" ] || fail "not the answer that run gives"
run 0 run "${greedy[@]}" -f "$work/boats" -p "What is the red boat called?" --policy full -q
answer=$out
chat 0 "$boats/clear\n$boats" "${greedy[@]}" -f "$work/boats"
[ "$(reply 1)" = "$answer" ] || fail "not the answer that run gives"
[ "$(reply 2)" = "$answer" ] || fail "the document does not stay"
says '^winnow: a new conversation, about the document$'
chat 1 "/system x\n$boats" "${greedy[@]}" -f "$work/boats" -q
says '^winnow: the system prompt cannot be changed \(the document was read behind it'
[ "$(reply 1)" = "$answer" ] || fail "what was refused changed the reply"
run 0 compress -t 1 -f "$work/boats" --policy full -o "$made/doc.wkv" -q
chat 0 "$boats/save $made/talk.wkv\nAnd the green one?\n" "${greedy[@]}" --load "$made/doc.wkv"
says '^winnow: loaded a document of [0-9]+ tokens in '
[ "$(reply 1)" = "$answer" ] || fail "the stored document gives another answer"
green=$(reply 2)
chat 0 'And the green one?\n' "${greedy[@]}" --load "$made/talk.wkv" -q
[ "$(reply 1)" = "$green" ] || fail "going on about the document gives another answer"

# ---- a context without a budget is full at some time ----
chat 1 "Tell me a long tale.\nGo on.\n/save $made/full.wkv\n" -t 1 --temp 0 -n 40 -c 64 \
    --decode-budget none -sys "You are a poet."
says '^winnow: the context is full \([0-9]+ of 64 tokens are in use, and this turn has [0-9]+; /budget auto goes on '
says "^winnow: saved 1 turn, "

# ---- what is said is text ----
chat 0 'Say <|im_end|> and \0377.\n' "${greedy[@]}" -q -sys "You are a poet."
grep -qx '> Say <|im_end|> and �\.' "$work/out" || fail "the turn is not shown as valid text"

# ---- on a terminal: the real model, which takes its time ----
export WINNOW_MODEL=$real_model
last_command="chat, on a terminal"
head -c 20000 "${WN_TEST_DATA:-$(dirname "$0")/..}/../benchmarks/texts/narrative.txt" >"$work/long"
terminal_python - "$WINNOW_BIN" "$work/long" "$made/typed.wkv" >"$work/terminal" <<'PYTHON' || fail "not as it should be on a terminal: $(tail -n 3 "$work/terminal")"
import os, sys
from terminal import Terminal, was_interrupted

def start(*flags):
    return Terminal(sys.argv[1], "chat", "-t", "1", *flags)

# A reply is stopped, stays part of the conversation, and the next turn is read behind it.
terminal = start("-n", "2000", "--temp", "2", "--top-k", "0", "--top-p", "1", "--min-p", "0")
terminal.wait_for_prompt()
terminal.type(b"Tell a tale.\r")
terminal.wait_for(b"\n")
terminal.wait_for(b" ")
terminal.type(b"\x03")
terminal.wait_for(b"winnow: stopped on request")
terminal.wait_for_prompt()
terminal.type(b"Go\\\r")
terminal.wait_for_prompt(b"... ")
terminal.type(b"on.\r")
terminal.wait_for(b"\n")
terminal.wait_for(b" ")
terminal.type(b"\x03")
terminal.wait_for(b"winnow: stopped on request")
terminal.wait_for_prompt()
terminal.type(f"/save {sys.argv[3]}\r".encode())
terminal.wait_for(b"winnow: saved 2 turns, ")
terminal.wait_for_prompt()
terminal.type(b"/nonsense\r")
terminal.wait_for(b"unknown command /nonsense")
terminal.wait_for_prompt()
terminal.type(b"\x04")
terminal.wait_for(b"turns ")
status = terminal.ended()
if status != 0:
    sys.exit(f"left with {status}")

# Where a turn is awaited, it leaves.
terminal = start()
terminal.wait_for_prompt()
terminal.type(b"\x03")
status = terminal.ended()
if not was_interrupted(status):
    sys.exit(f"ended with {status}")

# A document is not read to its end.
terminal = start("-f", sys.argv[2])
terminal.wait_for(b"reading")
terminal.type(b"\x03")
terminal.wait_for(b"winnow: stopped on request after reading ")
terminal.wait_for(b"there is no conversation yet")
status = terminal.ended()
sys.exit(0 if os.WEXITSTATUS(status) == 130 else f"stopped with {status}")
PYTHON
run 0 inspect "$made/typed.wkv" --json
json 'd["meta"]["conversation"]["turns"] == 2'
json 'd["meta"]["conversation"]["transcript"][1]["user"] == "Go\non."'
json 'len(d["meta"]["conversation"]["transcript"][0]["answer"]) > 0'
json 'd["file"]["tokens"] == d["file"]["token_ids"]'
finish
