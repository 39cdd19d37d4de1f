#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Helpers of the program's tests. Each test script runs `winnow` through `run` or `refused`, checks
# what came out with the others, and ends with `finish`. Every failed check is printed; the script
# fails if there was one.
set -uo pipefail

: "${WINNOW_BIN:?the program under test}"
if [ ! -f "${WINNOW_MODEL:-}" ]; then
    echo "skipped: WINNOW_MODEL names no model"
    exit 77
fi
export WINNOW_MODEL
# Flags, figures and errors are the same with a model that says nothing: the zoo's has as many layers
# and heads as the default one and is ready in milliseconds. Scripts set WINNOW_MODEL to it where answers need not make sense. Without a zoo it is the real one.
# shellcheck disable=SC2034 # for the scripts
real_model=$WINNOW_MODEL
tiny_model=${WINNOW_ZOO:-}/chat.gguf
[ -f "$tiny_model" ] || tiny_model=$real_model

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n_failed=0
out=
err=

fail() {
    n_failed=$((n_failed + 1))
    printf 'FAILED: %s\n  last command: winnow %s\n  stdout: %.600s\n  stderr: %.1200s\n' \
        "$1" "${last_command:-}" "$out" "$err"
}

# terminal_python ARGS: python3 with the module `terminal` at hand.
terminal_python() {
    PYTHONPATH=$(dirname "$0") python3 -B "$@"
}

# run STATUS ARGUMENTS...: runs the program, keeps its output in $out and $err, and checks its exit
# status. Standard input comes from the caller.
run() {
    local expected=$1 status=0
    shift
    last_command="$*"
    "$WINNOW_BIN" "$@" >"$work/out" 2>"$work/err" || status=$?
    # Command substitution cannot hold NUL bytes; tests that care read the files.
    out=$(tr -d '\0' <"$work/out")
    err=$(tr -d '\0' <"$work/err")
    [ "$status" -eq "$expected" ] || fail "exit status $status instead of $expected"
}

# refused STATUS PATTERN ARGUMENTS...: the program says one sentence that matches the extended
# regular expression and prints nothing else.
refused() {
    local expected=$1 pattern=$2
    shift 2
    run "$expected" "$@" </dev/null
    [ -z "$out" ] || fail "output besides the error"
    [ "$(grep -c '' "$work/err")" -eq 1 ] || fail "not one line of error"
    [[ $err == "winnow: "* ]] || fail "the error does not begin with the program's name"
    grep -Eq -- "$pattern" "$work/err" || fail "the error does not match: $pattern"
}

says() {
    grep -Eq -- "$1" "$work/err" || fail "standard error does not match: $1"
}

says_not() {
    ! grep -Eq -- "$1" "$work/err" || fail "standard error matches: $1"
}

# json EXPRESSION...: Python expressions over the parsed output, `d`, that must be true.
json() {
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1], encoding="utf-8"))
false = [text for text in sys.argv[2:] if not eval("(" + text + ")")]
print(*false, sep="\n")
sys.exit(len(false) > 0)' "$work/out" "$@" >"$work/false" 2>"$work/python" ||
        fail "not true of the JSON: $(cat "$work/false" "$work/python" | tail -n 3)"
}

# stop_at LINES FILE ARGUMENTS...: runs the program and sends SIGINT once the file that it writes has that
# many lines; its output is in $out and $err. A shell starts background jobs with SIGINT ignored,
# which Python undoes.
stop_at() {
    local n_lines=$1 file=$2
    shift 2
    last_command="$*, interrupted"
    python3 - "$work" "$n_lines" "$file" "$WINNOW_BIN" "$@" <<'PYTHON' || fail "did not stop as it should"
import os, signal, subprocess, sys, time
work, n_lines, file, command = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
with open(work + "/out", "wb") as out, open(work + "/err", "wb") as err:
    process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if os.path.exists(file) and open(file).read().count("\n") >= n_lines:
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    status = process.wait(timeout=60)
sys.exit(0 if status == 130 else 1)
PYTHON
    out=$(cat "$work/out")
    err=$(cat "$work/err")
}

finish() {
    [ "$n_failed" -eq 0 ] || exit 1
    echo "all checks passed"
}
