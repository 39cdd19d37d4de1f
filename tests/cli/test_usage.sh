#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Help texts, and everything that is refused before a model is opened: the model named here does
# not exist.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
missing=/nonexistent/model.gguf
question=(-m "$missing" -p hello)

run 0 --version
[[ $out =~ ^winnow\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "odd version"
run 0 --help
[[ $out == *"  run "* ]] || fail "the help does not list run"
help_text=$out
run 0 help
[ "$out" = "$help_text" ] || fail "help and --help differ"
run 0 help run
run_help=$out
[[ $out == *"--keep AMOUNT"* && $out == *"default 20%"* && $out == *"question-aware"* && $out == *"--fit WHAT"* ]] ||
    fail "incomplete help"
run 0 run --help
[ "$out" = "$run_help" ] || fail "help run and run --help differ"
run 0 run -h
[ "$out" = "$run_help" ] || fail "help run and run -h differ"

run 0 help inspect
inspect_help=$out
[[ $out == *"--queries N"* && $out == *"--keep AMOUNT"* && $out == *"winnow inspect -m"* ]] ||
    fail "incomplete help"
run 0 inspect --help
[ "$out" = "$inspect_help" ] || fail "help inspect and inspect --help differ"
# The flags of a compression are the same for both.
compression=$(sed -n '/^Compression/,/^$/p; /^Fine points/,$p' <<<"$run_help")
[ "$(sed -n '/^Compression/,/^$/p; /^Fine points/,$p' <<<"$inspect_help")" = "$compression" ] ||
    fail "run and inspect explain compression differently"

run 0 help compress
[[ $out == *"default 10%"* && $out == *"-o, --output FILE"* && $out == *"--fit WHAT"* ]] ||
    fail "incomplete help"
run 0 help ask
[[ $out == "usage: winnow ask FILE "* && $out == *"-i, --interactive"* && $out == *"--seed N"* ]] ||
    fail "incomplete help"

refused 2 'no subcommand'
refused 2 'unknown subcommand rnu \(did you mean run\?\)' rnu
refused 2 'unknown subcommand rnu \(did you mean run\?\)' help rnu
refused 2 'unknown subcommand frobnicate \(winnow --help' frobnicate
refused 2 'unknown flag --versoin' --versoin

refused 2 'unknown flag --kepe \(did you mean --keep\?\)' run "${question[@]}" --kepe 20%
refused 2 'unknown flag --kepe \(did you mean --keep\?\)' run "${question[@]}" --kepe=20%
refused 2 'unknown policy .minh. \(did you mean min-h\?\)' run "${question[@]}" --policy minh
refused 2 'unknown policy .bogus. \(choose from full, random, streaming' run "${question[@]}" --policy bogus
refused 2 'unknown select .smaple. \(did you mean sample\?\)' run "${question[@]}" --select smaple
refused 2 'unexpected word .stray.' run "${question[@]}" stray
refused 2 '--keep needs a value' run "${question[@]}" --keep
refused 2 '--json takes no value' run "${question[@]}" --json=yes

for keep in 0 0% 100.1% -5% nan '' abc '20 %' 0.2 1e3 20%% -1 64MiBs; do
    refused 2 '--keep is refused' run "${question[@]}" --keep "$keep"
    refused 2 '--keep is refused' run "${question[@]}" "--keep=$keep"
done
for tau in 0 -1 nan abc ''; do
    refused 2 "--tau '$tau' is refused .*above 0" run "${question[@]}" --tau "$tau"
done
refused 2 "--threads '0' is refused \(out of range; give auto or 1 to 256\)" \
    run "${question[@]}" -t 0
refused 2 "--predict '5x' is refused \(not a whole number" run "${question[@]}" -n 5x
refused 2 "--batch-size '16' is refused .*32 to 4096" run "${question[@]}" -b 16
refused 2 "--ubatch-size '16' is refused .*32 to 4096" run "${question[@]}" -ub 16
refused 2 "--window '0' is refused \(out of range; give all or 1 to" run "${question[@]}" --window 0
refused 2 '--window: snapkv ' run "${question[@]}" --policy snapkv --window all
refused 2 '--group: the weights sum to 0.9' run "${question[@]}" --group 0.5,0.4
refused 2 "--group is refused \('0.5,x' is neither" run "${question[@]}" --group 0.5,x
for budget in 0 -5 x 1.5 20% ''; do
    refused 2 '--decode-budget is refused \(.*; give entries per head, auto or none\)' \
        run "${question[@]}" --decode-budget "$budget"
    refused 2 '--prefill-budget is refused' compress -m "$missing" --prefill-budget "$budget"
done
refused 2 '--prefill-budget 8 leaves too few entries per head .*--recent 32' \
    run "${question[@]}" --prefill-budget 8 --recent 32
refused 2 '--compare and --prefill-budget exclude' \
    run "${question[@]}" --prefill-budget 100 --compare
refused 2 '--max-error and --prefill-budget exclude each other' \
    run "${question[@]}" -f "$missing" --max-error 0.1 --prefill-budget 100
refused 2 '--max-error and --prefill-budget exclude each other' \
    compress -m "$missing" -f "$missing" -o a.wkv --max-error 0.1 --prefill-budget auto
refused 2 "--merge '1.5' is refused .*-1 to 1" run "${question[@]}" --merge 1.5
refused 2 'unknown fit .values. \(choose from none, b, v, bv\)' run "${question[@]}" --fit values
refused 2 "--ridge '0' is refused .*above 0, up to 1000" run "${question[@]}" --ridge 0
refused 2 "--eta '-1' is refused \(out of range; give 0 to 10\)" run "${question[@]}" --eta -1
refused 2 "--head-floor '2' is refused .*0 to 1" inspect "${question[@]}" --head-floor 2
refused 2 'unknown budget .heda. \(did you mean head\?\)' run "${question[@]}" --budget heda
refused 2 '--kernel: 4 is not an odd number' run "${question[@]}" --policy snapkv --kernel 4
refused 2 'no document and no question; give -f FILE, -p TEXT or both' run -m "$missing"
refused 2 'standard input is named 2 times' run -m "$missing" -f - -p -
refused 2 'a question is empty' run -m "$missing" -p ' '
for kernels in mmx neon avx5121; do
    [[ $(uname -m) == aarch64 && $kernels == neon ]] && continue
    WINNOW_CPU=$kernels refused 2 \
        "no kernels '$kernels' on this machine \(from WINNOW_CPU; choose from auto, .*reference\)" \
        run "${question[@]}"
done
WINNOW_CPU=mmx refused 2 "no kernels 'mmx' on this machine" bench targets -m "$missing"
WINNOW_MODEL='' refused 2 'neither -m nor WINNOW_MODEL names one; give a GGUF file with -m FILE' \
    run -p hello

refused 2 'unknown flag --verison .did you mean --version' --verison
refused 2 "--ctx-size '2147483647' is refused .*1073741823" run "${question[@]}" -c 2147483647

refused 2 "--plot 'a.jpg' is refused .*end it in .svg or .png" inspect "${question[@]}" --plot a.jpg
refused 2 "--queries '0' is refused .*1 to 4096" inspect "${question[@]}" --queries 0
refused 2 '--prompt is given twice \(only one can be used; leave the others out\)' \
    inspect "${question[@]}" -p again
refused 2 '--plot is given twice' inspect "${question[@]}" --plot a.svg --plot b.svg
refused 2 'unknown budget .adaptiv. \(did you mean adaptive\?\)' run "${question[@]}" --budget adaptiv
refused 2 "--gamma 'inf' is refused \(not a finite number; give 0 to 100\)" \
    run "${question[@]}" --policy exposure --gamma inf
refused 2 'unknown subcommand compres \(did you mean compress\?\)' compres
refused 2 'unknown subcommand caht \(did you mean chat\?\)' caht
refused 1 'cannot use the model' chat -m "$missing"
refused 2 'no output given' compress -m "$missing" -f text
refused 2 'no FILE given \(ask needs one; write winnow ask FILE\)' ask -p hello
refused 2 'unknown flag --compare' inspect "${question[@]}" --compare
refused 2 'no document and no question' inspect -m "$missing"

# An output that cannot be written is a failure, whatever was asked for.
for words in --help --version "run --help" "inspect --help" "compress --help" "ask --help" "chat --help"; do
    last_command="$words >/dev/full"
    # shellcheck disable=SC2086 # several words
    "$WINNOW_BIN" $words >/dev/full 2>"$work/err" && fail "exit status 0 although nothing was written"
    grep -q 'cannot write' "$work/err" || fail "no word about the output"
done

# What is well-formed goes on to the model, which is missing here.
for keep in 20% 100% 0.5% 512 64MiB 64MB 1.5GiB; do
    refused 1 'cannot use the model /nonexistent/model.gguf' run "${question[@]}" --keep "$keep"
done
refused 1 'cannot use the model' inspect "${question[@]}" --merge -1
echo text >"$work/text"
refused 1 'cannot use the model' \
    compress -m "$missing" -f "$work/text" -f "$work/text" -o "$work/a.wkv"
[ ! -e "$work/a.wkv" ] || fail "a file was left behind"
refused 1 'cannot use the model' run "${question[@]}" --tau inf --select sample -n -1 -ub 64

# A plot that cannot be drawn is refused before anything is read; otherwise the model is next. The
# gnuplot here is not the real one.
mkdir "$work/bin" "$work/plots"
printf '#!/bin/sh\nexec cat\n' >"$work/bin/gnuplot"
chmod +x "$work/bin/gnuplot"
PATH=$work/bin:$PATH refused 1 'cannot use the model' \
    inspect "${question[@]}" --plot "$work/plots/a.SVG"
PATH=$work/bin:$PATH refused 1 '^winnow: cannot write the plot .*nowhere/a.png \(No such file' \
    inspect "${question[@]}" --plot "$work/plots/nowhere/a.png"
printf '#!/bin/sh\nexit 3\n' >"$work/bin/gnuplot"
PATH=$work/bin:$PATH refused 1 '^winnow: cannot draw the plot \(gnuplot failed' \
    inspect "${question[@]}" --plot "$work/plots/a.svg"
printf '#!/bin/sh\nPATH=/nonexistent exec "%s" "$@"\n' "$WINNOW_BIN" >"$work/winnow"
chmod +x "$work/winnow"
WINNOW_BIN=$work/winnow refused 1 \
    '^winnow: cannot draw the plot \(gnuplot is not installed, or not in PATH\)$' \
    inspect "${question[@]}" --plot "$work/plots/a.svg"
[ -z "$(ls -A "$work/plots")" ] || fail "a file was left behind"
finish
