#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes the tiny models in a folder, or skips where Python lacks what that needs:
#   make_zoo.sh DEPS FOLDER
# DEPS may hold the wheel of the package gguf, as tools/setup.sh fetches it. PYTHON chooses one.
set -euo pipefail
deps=$1 folder=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

for wheel in "$deps"/gguf-*.whl; do
    if [[ -f $wheel ]]; then
        export WINNOW_GGUF_WHEEL=$wheel
    fi
done
for python in "${PYTHON:-python3}" /usr/bin/python3; do
    if "$python" -c 'import numpy, yaml' 2>/dev/null; then
        exec "$python" "$here/make_zoo.py" "$folder"
    fi
done
echo "make_zoo: skipped (no Python with numpy and yaml)" >&2
exit 77
