#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures every figure that the project promises; called by `make bench-targets`. Exit status 1 when one is short.
#   WINNOW_BIN, WINNOW_MODEL   the program and the model
#   WINNOW_REFERENCE           folder of reference data; without it the rows that need it are skipped
#   TARGETS                    names of groups to measure, for example "graft decode"; default: all
set -euo pipefail
cd "$(dirname "$0")/.."
arguments=(bench targets -m "$WINNOW_MODEL" --texts benchmarks/texts)
[ -z "${WINNOW_REFERENCE:-}" ] || arguments+=(--reference "$WINNOW_REFERENCE")
for group in ${TARGETS:-}; do arguments+=(--only "$group"); done
exec "$WINNOW_BIN" "${arguments[@]}"
