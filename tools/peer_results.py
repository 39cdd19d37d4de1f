#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Results of a peer in the format of `winnow bench` (src/eval/results.h), and tables of them beside ours.
Needs no packages.

    python3 tools/peer_results.py kvpress.jsonl fidelity.jsonl
    python3 tools/peer_results.py --fingerprint model.gguf
"""

import argparse
import json
import math
import os
import re
import statistics
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FNV_BASIS, FNV_PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
PART_BYTES, N_SAMPLES, SAMPLE_BYTES = 1 << 20, 256, 4096


class PeerError(Exception):
    """What went wrong, as one sentence: what (why; what to do)."""


def fingerprint(path):
    """The model's fingerprint as wn_model_fingerprint makes it, 16 hexadecimal digits."""
    value = FNV_BASIS
    with open(path, "rb") as file:
        n_bytes = os.fstat(file.fileno()).st_size
        n_part = min(n_bytes, PART_BYTES)
        n_sample = min(n_part, SAMPLE_BYTES)
        parts = [(0, n_part), (n_bytes - n_part, n_part)]
        parts += [((n_bytes - n_sample) // N_SAMPLES * i, n_sample) for i in range(N_SAMPLES)]
        blocks = [n_bytes.to_bytes(8, "little")]
        for offset, n in parts:
            file.seek(offset)
            blocks.append(file.read(n))
    for block in blocks:
        for byte in block:
            value = ((value ^ byte) * FNV_PRIME) & MASK
    return f"{value:016x}"


def winnow_version():
    """Version of the checkout that this script is part of."""
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"project\(winnow VERSION ([0-9.]+)", file.read()).group(1)


def cpu_name():
    """The CPU's name as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            found = re.search(r"^model name\s*: *(.*)$", file.read(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1) if found else "unknown"


def finite(value):
    """The number, rounded as the program writes it, or None: JSON has no infinities."""
    return float(f"{value:.9g}") if math.isfinite(value) else None


# ---- files ----


def read(path):
    """Header and cells {name: values} of a file of results; a last line that was cut off is left out."""
    header, cells = None, {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                break
            try:
                parsed = json.loads(line)
            except ValueError as error:
                raise PeerError(f"cannot read {path} (not JSON: {error}; name a file of results)") from error
            if parsed.get("format") == "winnow results":
                header = header or parsed
            elif header is None or "cell" not in parsed:
                raise PeerError(f"cannot read {path} (it holds no results; name another file)")
            else:
                cells[parsed["cell"]] = parsed["values"]
    if header is None:
        raise PeerError(f"cannot read {path} (it holds no results; name another file)")
    return header, cells


class Results:
    """Cells of one header, in a file that grows line by line or, without a path, in memory."""

    def __init__(self, path, header):
        self.cells, self.file = {}, None
        if path is None:
            return
        if os.path.exists(path) and os.path.getsize(path) > 0:
            self._resume(path, header)
        else:
            self.file = open(path, "w", encoding="utf-8")
            self._write(header)

    def _resume(self, path, header):
        theirs, self.cells = read(path)
        for key in ("benchmark", "winnow", "settings", "seed"):
            if theirs.get(key) != header[key]:
                raise PeerError(
                    f"cannot go on with {path} (its {key} is {theirs.get(key)}, and here it is {header[key]}; "
                    "name another file)"
                )
        if theirs["model"]["fingerprint"] != header["model"]["fingerprint"]:
            raise PeerError(f"cannot go on with {path} (it was measured with another model; name another file)")
        with open(path, "rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
        self.file = open(path, "a", encoding="utf-8")

    def _write(self, line):
        if self.file is not None:
            self.file.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")
            self.file.flush()

    def add(self, cell, values):
        """Keeps a cell and writes its line."""
        self._write({"cell": cell, "values": values})
        self.cells[cell] = values


def make_header(model_path, description, seed, settings):
    """What all cells of a fidelity benchmark have in common."""
    return {
        "format": "winnow results",
        "version": 1,
        "winnow": winnow_version(),
        "benchmark": "fidelity",
        "model": {"description": description, "fingerprint": fingerprint(model_path)},
        "settings": settings,
        "seed": seed,
        "cpu": cpu_name(),
    }


# ---- tables ----


def mean(values):
    """Mean of those that are known, or None."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def summarise(cells):
    """Means over texts and seeds: {(keep, n_prefix): [row, the smallest KL first]}."""
    groups = {}
    for values in cells:
        key = (values["keep"], values["n_prefix"])
        groups.setdefault(key, {}).setdefault(values["method"], []).append(values)
    tables = {}
    for key, methods in groups.items():
        rows = []
        for method, of_method in methods.items():
            row = {name: mean([v.get(name) for v in of_method]) for name in ("kl_mean", "same_top", "perplexity_ratio")}
            row.update(
                method=method,
                texts=sorted({v["text"] for v in of_method}),
                n_scored=sum(v["n_scored"] for v in of_method),
                kept=mean([v["n_after"] / v["n_before"] for v in of_method if v.get("n_before")]),
            )
            rows.append(row)
        tables[key] = sorted(rows, key=lambda row: math.inf if row["kl_mean"] is None else row["kl_mean"])
    return tables


def shown(value, form):
    """A number in the form asked for, or a dash."""
    return "-" if value is None else format(value, form)


def print_tables(tables, out):
    """Markdown, a table for each share and length."""
    for (keep, n_prefix), rows in sorted(tables.items(), key=lambda item: (-item[0][0], item[0][1])):
        print(f"\n### keep {100 * keep:g} % of {n_prefix:,} tokens\n", file=out)
        print("| method | KL, nat | same top token | perplexity ratio | kept | texts | tokens |", file=out)
        print("|---|---|---|---|---|---|---|", file=out)
        for row in rows:
            print(
                f"| {row['method']} | {shown(row['kl_mean'], '.4f')} | {shown(row['same_top'], '.1%')} | "
                f"{shown(row['perplexity_ratio'], '.4f')} | {shown(row['kept'], '.1%')} | {len(row['texts'])} | "
                f"{row['n_scored']} |",
                file=out,
            )


def only_common(cells, others):
    """Of `others`, those on texts, lengths and numbers of tokens that the cells have too."""
    here = {(v["text"], v["n_prefix"], v["n_scored"]) for v in cells}
    return [v for v in others if (v["text"], v["n_prefix"], v["n_scored"]) in here]


def print_beside(peer, winnow_path, peer_header, out):
    """Tables of a peer's cells, and with a path those of ours on the same texts among them."""
    cells = list(peer)
    if winnow_path is not None:
        header, ours = read(winnow_path)
        if header.get("benchmark") != "fidelity":
            raise PeerError(f"cannot compare with {winnow_path} (it is no fidelity benchmark; name another file)")
        if header["model"]["fingerprint"] != peer_header["model"]["fingerprint"]:
            raise PeerError(f"cannot compare with {winnow_path} (it is of another model; name another file)")
        common = only_common(cells, ours.values())
        if not common:
            raise PeerError(f"cannot compare with {winnow_path} (no text, length and number of tokens is in both)")
        cells += common
    print_tables(summarise(cells), out)


def main():
    parser = argparse.ArgumentParser(description="Prints results of a peer, beside ours when a second file is named.")
    parser.add_argument("file", help="results of the peer, or with --fingerprint a model")
    parser.add_argument("winnow", nargs="?", help="file of `winnow bench fidelity -o`")
    parser.add_argument("--fingerprint", action="store_true", help="print a model's fingerprint and nothing else")
    arguments = parser.parse_args()
    try:
        if arguments.fingerprint:
            print(fingerprint(arguments.file))
        else:
            header, cells = read(arguments.file)
            print_beside(cells.values(), arguments.winnow, header, sys.stdout)
    except (OSError, PeerError) as error:
        print(f"peer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
