#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Models with sliding windows, and models that cannot be served, as the program tells of them.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

zoo=${WINNOW_ZOO:-}
if [ ! -f "$zoo/gemma2.gguf" ]; then
    echo "skipped: there are no tiny models"
    exit 77
fi
printf 'The red boat is called Wren and carries mail. The green boat is called Heron.\n' >"$work/text"
ask=(run -t 1 -f "$work/text" -p "Which?" -n 8)

# Shares are of the layers without a window; what the others hold is told apart.
run 0 "${ask[@]}" -m "$zoo/gemma2.gguf" --keep 50%
says '^entries +[0-9]+ kept per head \([0-9]+ to [0-9]+\) of [0-9]+: (49|50)\.[0-9] %, '
says '^windows +[0-9]+ entries of layers with a sliding window, as they are$'
run 0 "${ask[@]}" -m "$zoo/gemma2.gguf" --keep 50% --json
json '0.45 < d["answers"][0]["compression"]["kept_share"] < 0.51'
json 'd["answers"][0]["compression"]["entries_in_windows"] > 0'

# A document that is read once: the answers are those of run, where everything is kept.
run 0 "${ask[@]}" -m "$zoo/gemma2.gguf" --keep 100% -q
answer=$out
run 0 compress -t 1 -m "$zoo/gemma2.gguf" -f "$work/text" -o "$work/text.wkv" --policy full -q
run 0 ask "$work/text.wkv" -t 1 -m "$zoo/gemma2.gguf" -p "Which?" -n 8 -q
[ "$out" = "$answer" ] || fail "ask and run differ"

# Nothing but windows: one note, and the answer of everything.
run 0 "${ask[@]}" -m "$zoo/every-window.gguf" --policy full -q
answer=$out
run 0 "${ask[@]}" -m "$zoo/every-window.gguf" --keep 20%
[ "$out" = "$answer" ] || fail "an answer without compression changed"
says 'note: nothing is compressed \(every layer of the model attends to a sliding window'
says_not '^entries '
says '^windows +[0-9]+ entries'
refused 1 'every layer of the model attends to a sliding window' calibrate -t 1 \
    -m "$zoo/every-window.gguf" -o "$work/calibration.json"

# A window as wide as the context: a conversation keeps to its budget, and ends with the context.
printf 'one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n' >"$work/lines"
run 1 chat -t 1 -m "$zoo/gemma3.gguf" -c 64 -n 8 --decode-budget 40 <"$work/lines"
says 'note: the conversation ends with its context of 64 tokens \(the model'"'"'s positions cannot'
says 'the context is full .* has [0-9]+; /clear begins anew\)$'
says_not 'positions cannot be re-based:'

# Those that cannot be served: their name and the reason.
refused 1 "'mamba' is not supported: it is recurrent" "${ask[@]}" -m "$zoo/mamba.gguf"
refused 1 "'llama4' is not supported: its attention is cut into chunks" "${ask[@]}" \
    -m "$zoo/llama4.gguf"
refused 1 "'mpt' is not supported: its attention uses ALiBi" "${ask[@]}" -m "$zoo/mpt.gguf"
run 1 "${ask[@]}" -m "$zoo/gpt2.gguf" -c 2000
says 'learned 1024 positions, and the context would have 2000'
finish
