#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Ctrl-C: the program stops within a second, says what it did, and exits with 130.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# interrupted SIGN ARGUMENTS...: sends SIGINT a moment after the sign: `caught`, the program has
# begun to read the prompt (it handles the signal from there on), or `text`, the first words are
# out; and at once at `rehearsing`, the bar of a rehearsal, for which standard error is a terminal.
# A shell starts background jobs with SIGINT ignored, so the program is started by Python,
# which can undo that.
interrupted() {
    local sign=$1
    shift
    last_command="$*"
    python3 - "$work" "$sign" "$WINNOW_BIN" "$@" <<'PYTHON' || fail "did not stop as it should"
import os, re, signal, subprocess, sys, time
work, sign, command = sys.argv[1], sys.argv[2], sys.argv[3:]
on_terminal = sign == "rehearsing"
terminal, slave = os.openpty()
os.set_blocking(terminal, False)
drawn = b""

def drain():
    global drawn
    try:
        while part := os.read(terminal, 4096):
            drawn += part
    except OSError:
        pass

def seen(process):
    if on_terminal:
        drain()
        return b"rehearsing [" in drawn
    if sign == "text":
        return os.path.getsize(work + "/out") > 0
    status = open(f"/proc/{process.pid}/status").read()
    return int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (signal.SIGINT - 1) & 1

with open(work + "/out", "wb") as out, open(work + "/err", "wb") as err:
    process = subprocess.Popen(command, stdout=out, stderr=slave if on_terminal else err,
                               stdin=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    deadline = time.monotonic() + 240
    while process.poll() is None and time.monotonic() < deadline and not seen(process):
        time.sleep(0.02)
    if not on_terminal:
        time.sleep(0.3)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    status = process.wait(timeout=30)
    took = time.monotonic() - sent
    drain()
    err.write(drawn.replace(b"\r\n", b"\n"))
print(f"status {status} after {took:.2f} s")
# A second is the promise; the rest is room for a machine that is busy with something else.
sys.exit(0 if status == 130 and took < 3 else 1)
PYTHON
    out=$(cat "$work/out")
    err=$(cat "$work/err")
}

if ! grep -q SigCgt /proc/self/status 2>/dev/null; then
    echo "skipped: no /proc"
    exit 77
fi

# While reading, which takes long with these kernels.
yes 'The tide comes in twice a day, and twice a day it leaves.' | head -c 16000 >"$work/text"
export WINNOW_CPU=reference
interrupted caught run -t 1 -f "$work/text" -p "What does the tide do?"
unset WINNOW_CPU
says 'stopped on request after reading [0-9,]+ tokens'
says '^document +[0-9,]+ tokens'
says '^speed +prompt '
says_not '^entries'
[ -z "$out" ] || fail "an answer to a question that was not read"

# While answering: what came before stays.
interrupted text run -t 1 -p "Count from one to five hundred." -n 1000 --temp 1
says 'stopped on request'
says '^entries '
says '^speed .*answer '

# While several are answered: what there is of each.
interrupted text run -t 1 -p "Count from one to five hundred." -p "Tell me a long story." -n 1000 \
    --temp 1 --seed 4
says 'stopped on request'
says '^speed .*answer .* tokens, 2 questions at once\)$'
grep -q '^> Count' "$work/out" || fail "no first answer"
[ -n "$(sed '1,/^> Tell/d' "$work/out")" ] || fail "nothing of the second answer"

# While reading, with JSON: the object is complete and says so.
export WINNOW_CPU=reference
interrupted caught run -t 1 -f "$work/text" -p "What does the tide do?" -p "And when?" \
    --compare --json
unset WINNOW_CPU
json 'd["interrupted"] is True'
json '[a["stop"] for a in d["answers"]] == ["none", "none"]'
json 'all(a["compression"] is None for a in d["answers"])'

# While rehearsing, in small pieces for want of room.
head -c 1600 "$work/text" >"$work/short"
for words in "run -p why" inspect; do
    # shellcheck disable=SC2086 # several words
    interrupted rehearsing $words -t 1 -c 520 -f "$work/short" --policy rehearsal
    says 'stopped on request after reading [0-9,]+ tokens and rehearsing [0-9,]+'
    says_not '^entries'
    [ -z "$out" ] || fail "an answer or figures although the rehearsal was stopped"
done

# An inspection that is stopped while it reads has nothing to show.
export WINNOW_CPU=reference
interrupted caught inspect -t 1 -f "$work/text"
unset WINNOW_CPU
says '^winnow: stopped on request after reading [0-9,]+ tokens$'
[ -z "$out" ] || fail "figures of a text that was not read"

# While gnuplot draws, the signal waits until the picture is complete or gone. The gnuplot here is
# not the real one: it is tried first, and sends the signals when it is called again.
mkdir "$work/bin" "$work/plots"
# draws RECEIVERS FILE: the shell's words for who gets the signal, and what is in the folder then.
draws() {
    local status=0
    printf '#!/bin/sh\n[ ! -e "%s/tried" ] || kill -INT %s\n: >"%s/tried"\nexec cat\n' \
        "$work" "$1" "$work" >"$work/bin/gnuplot"
    chmod +x "$work/bin/gnuplot"
    rm -f "$work/tried" "$work/plots/a.svg"
    last_command="inspect --plot, SIGINT to $1"
    PATH=$work/bin:$PATH python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' \
        "$WINNOW_BIN" inspect -m "$tiny_model" -t 1 -p hello --plot "$work/plots/a.svg" \
        >"$work/out" 2>"$work/err" || status=$?
    out=$(cat "$work/out")
    err=$(cat "$work/err")
    [ "$status" -eq 130 ] || fail "exit status $status instead of 130"
    grep -q '^worst ' "$work/out" || fail "no figures"
    [ "$(ls "$work/plots")" = "$2" ] || fail "not just '$2' in the folder: $(ls "$work/plots")"
}
draws "\$PPID" a.svg
draws "\$PPID \$\$" ''
finish
