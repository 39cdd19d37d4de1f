#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Documents and models that cannot be used: one sentence each, and no abort.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
question=(-t 1 -p hello)

refused 1 'cannot open /nonexistent/text \(No such file' run -f /nonexistent/text "${question[@]}"
refused 1 'cannot use .* \(it is a directory' run -f "$work" "${question[@]}"
: >"$work/empty"
refused 1 'cannot use .*empty \(it is empty' run -f "$work/empty" "${question[@]}"
refused 1 'cannot use standard input \(it is empty' run -f - "${question[@]}"
refused 1 'cannot use standard input \(it is empty' run -p -
if [ "$(id -u)" -ne 0 ]; then
    : >"$work/locked" && chmod 000 "$work/locked"
    refused 1 'Permission denied' run -f "$work/locked" "${question[@]}"
fi

# 5 MB of text: longer than the context, which the sentence says with both numbers.
yes 'The quick brown fox jumps over the lazy dog.' | head -c 5000000 >"$work/long"
refused 1 'longer than the context \([0-9,]+ tokens, and the context holds 8,192' \
    run -f "$work/long" "${question[@]}"
yes 'The quick brown fox jumps over the lazy dog.' | head -c 2000 >"$work/short"
refused 1 'longer than the context \([0-9,]+ tokens, and -c allows 100; raise -c' \
    run -f "$work/short" "${question[@]}" -c 100

# Bytes that are not text are said to be so, and read nevertheless.
head -c 100 /dev/zero >"$work/zeros"
printf 'caf\xe9 and \xff\xfe, cut short: \xf0\x9f' >"$work/latin"
for file in zeros latin; do
    run 0 run -f "$work/$file" "${question[@]}" -n 8 -t 1
    says 'the document holds bytes that are not text'
    iconv -f UTF-8 -t UTF-8 "$work/out" >/dev/null || fail "the answer is not UTF-8"
done
head -c 300000 /dev/zero >"$work/zeros"
run 1 run -f "$work/zeros" "${question[@]}"
says 'longer than the context'

# The machine has no 221 GiB; nothing of it is tried.
run 1 run "${question[@]}" -c 10000000
says '-c 10000000 is above the 8192 tokens the model was trained for'
says '[0-9]{12} bytes'

# Models.
refused 1 'cannot use the model .*missing' run -m "$work/missing" "${question[@]}"
refused 1 'cannot use the model .*directory' run -m "$work" "${question[@]}"
refused 1 'cannot use the model .*empty' run -m "$work/empty" "${question[@]}"
refused 1 'cannot use the model .*not a GGUF' run -m "$work/short" "${question[@]}"
head -c 1000000 "$WINNOW_MODEL" >"$work/truncated"
refused 1 'cannot use the model .*' run -m "$work/truncated" "${question[@]}"
{ printf 'GGUF\x63\x00\x00\x00'; tail -c +9 "$work/truncated"; } >"$work/version"
refused 1 'cannot use the model .*version' run -m "$work/version" "${question[@]}"
finish
