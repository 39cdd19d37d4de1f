#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Asks five questions about the example document, with the full cache and with a part of it, and
# shows both. Called by `make demo` with WINNOW_BIN (the program) and WINNOW_MODEL (a GGUF file).
# Arguments are further flags of `winnow run`, for example --keep 50% or --policy snapkv.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
: "${WINNOW_BIN:?names the program; run 'make demo'}"
: "${WINNOW_MODEL:?names the model; run 'make demo'}"
export WINNOW_MODEL

document=
for file in "$root"/examples/*.txt; do
    [ "$(basename "$file")" = questions.txt ] || document=$file
done
questions=$root/examples/questions.txt
if [ -z "$document" ] || [ ! -f "$questions" ]; then
    echo "demo: examples/ lacks its document or questions.txt (restore the folder)" >&2
    exit 1
fi

arguments=()
while IFS=$'\t' read -r question _; do
    [ -z "$question" ] || arguments+=(-p "$question")
done <"$questions"
n_questions=$((${#arguments[@]} / 2))

cat <<TEXT

The document   ${document#"$root"/}, $(wc -w <"$document") words
The model      $(basename "$WINNOW_MODEL")
The task       The model reads the document once. For each of $n_questions questions
               Winnow then evicts most of the KV cache and lets the model answer from
               what is left, and, for comparison, from the full cache. This takes a
               minute or two.

TEXT

result=$(mktemp)
trap 'rm -f "$result"' EXIT
"$WINNOW_BIN" run -f "$document" "${arguments[@]}" -n 40 --compare --json "$@" >"$result"
exec python3 "$root/tools/demo_report.py" "$result" "$questions"
