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


# ---- texts ----


def read_text(path):
    """A text's bytes, which its hash is of, and the same as a string with every byte's meaning kept: tokens are those
    of the bytes, line ends included."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        if b"\0" in data:
            raise ValueError("byte 0")
        return data, data.decode("utf-8")
    except ValueError as error:
        raise PeerError(f"cannot use {path} (it is no text in UTF-8: {error}; give a text)") from error


def text_hash(data):
    """What the program remembers a text by (src/eval/content_hash.c). Needs xxhash."""
    import xxhash

    return f"{xxhash.xxh3_64(data).intdigest():016x}"


# ---- files ----


def refuse_constant(name):
    """JSON has no infinities, but Python reads them."""
    raise ValueError(name)


def parse(line):
    """The object on a line."""
    try:
        parsed = json.loads(line.decode("utf-8"), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise PeerError("is not JSON") from error
    if not isinstance(parsed, dict):
        raise PeerError("is no object")
    return parsed


def is_header(line):
    """Whether a header has what this script looks at."""
    model, settings = line.get("model"), line.get("settings")
    return isinstance(model, dict) and isinstance(settings, dict) and isinstance(line.get("benchmark"), str)


def difference(theirs, ours):
    """What keeps two headers out of one file, as a part of a sentence, or None."""
    there, here = (
        {
            **{key: header.get(key) for key in ("version", "winnow", "benchmark", "seed")},
            "model": header["model"].get("fingerprint"),
            **header["settings"],
        }
        for header in (theirs, ours)
    )
    for key in {**here, **there}:
        if there.get(key) != here.get(key):
            return f"its {key} is {there.get(key)}, and here it is {here.get(key)}"
    return None


def take_line(line, header, cells):
    """Adds a line's cell to the cells; the header, which may stand there again where files were joined."""
    if line.get("format") == "winnow results":
        if not is_header(line):
            raise PeerError("is a damaged header")
        if header is not None and difference(line, header) is not None:
            raise PeerError("begins other results")
        return line if header is None else header
    cell, values = line.get("cell"), line.get("values")
    if header is None or not isinstance(cell, str) or not isinstance(values, dict):
        raise PeerError("holds no results")
    if cell in cells:
        raise PeerError("repeats a cell")
    cells[cell] = values
    return header


def read(path):
    """Header and cells {name: values} of a file of results; a last line that was cut off is left out."""
    header, cells, n_lines = None, {}, 0
    try:
        with open(path, "rb") as file:
            for n_lines, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    header = take_line(parse(line), header, cells)
    except PeerError as error:
        raise PeerError(f"cannot read {path} (line {n_lines} {error}; name a file of results)") from error
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
        why = difference(theirs, header)
        if why is not None:
            raise PeerError(f"cannot go on with {path} ({why}; name another file)")
        check_fidelity(path, theirs, self.cells)
        with open(path, "rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
        self.file = open(path, "a", encoding="utf-8")

    def _write(self, line):
        if self.file is not None:
            self.file.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")
            self.file.flush()

    def add(self, cell, values):
        """Keeps a cell that is not there and writes its line."""
        assert cell not in self.cells
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

QUANTITIES = ("kl_mean", "same_top", "perplexity_ratio")
NUMBER, TEXT = (int, float), str
# What tables are made of; a quantity that is not finite is null.
MEMBERS = {"text": TEXT, "text_hash": TEXT, "method": TEXT, "keep": NUMBER, "n_scored": NUMBER}
MAY_BE_NULL = dict.fromkeys((*QUANTITIES, "n_before", "n_after"), (*NUMBER, type(None)))
# Types of a cache that round no more than 32-bit floats do, as far as any figure here shows.
EXACT_TYPES = ("f16", "f32")


def check_fidelity(path, header, cells):
    """Refuses results that no tables can be made of."""
    settings = header["settings"]
    if header["benchmark"] != "fidelity" or not all(isinstance(settings.get(k), int) for k in ("n_prefix", "n_scored")):
        raise PeerError(f"cannot compare {path} (it is no fidelity benchmark with its lengths; name another file)")
    for name, values in cells.items():
        wrong = [key for key, kind in MEMBERS.items() if not isinstance(values.get(key), kind)]
        wrong += [key for key, kind in MAY_BE_NULL.items() if not isinstance(values.get(key), kind)]
        if wrong:
            raise PeerError(f"cannot compare {path} (the cell {name} has no {wrong[0]}; measure it again)")


def read_fidelity(path):
    """Header and values of the cells of a file of `winnow bench fidelity` or of a peer."""
    header, cells = read(path)
    check_fidelity(path, header, cells)
    return header, list(cells.values())


def mean(values):
    """Mean, or None: one value that is unknown or infinite leaves none."""
    return None if not values or None in values else statistics.fmean(values)


def kept_share(values):
    """Share of the entries that a cell kept, or None where nothing was compressed."""
    before, after = values.get("n_before"), values.get("n_after")
    return after / before if before and after is not None else None


def make_row(method, texts):
    """A row of {text: [values of each seed]}: the seeds of a text are averaged first, then texts."""
    row = {name: mean([mean([v.get(name) for v in seeds]) for seeds in texts.values()]) for name in QUANTITIES}
    return dict(
        row,
        method=method,
        kept=mean([mean([kept_share(v) for v in seeds]) for seeds in texts.values()]),
        texts=sorted(name for name, _ in texts),
        n_scored=sum(seeds[0]["n_scored"] for seeds in texts.values()),
    )


def summarise(cells):
    """{share: (rows, the smallest KL first and unknown ones last, number of results left out)}: the methods of a share
    are compared on the texts that all of them have. A text is its name and its hash."""
    shares, tables = {}, {}
    for values in cells:
        methods = shares.setdefault(values["keep"], {})
        text = (values["text"], values["text_hash"])
        methods.setdefault(values["method"], {}).setdefault(text, []).append(values)
    for keep, methods in shares.items():
        common = set.intersection(*(set(texts) for texts in methods.values()))
        n_left_out = sum(len(v) for texts in methods.values() for text, v in texts.items() if text not in common)
        rows = [make_row(m, {text: v for text, v in texts.items() if text in common}) for m, texts in methods.items()]
        rows.sort(key=lambda row: math.inf if row["kl_mean"] is None else row["kl_mean"])
        tables[keep] = (rows if common else [], n_left_out)
    return tables


def shown(value, form):
    """A number in the form asked for, or a dash."""
    return "-" if value is None else format(value, form)


def print_tables(tables, n_prefix, out):
    """Markdown, a table for each share."""
    for keep, (rows, n_left_out) in sorted(tables.items(), reverse=True):
        print(f"\n### keep {100 * keep:g} % of {n_prefix:,} tokens\n", file=out)
        if rows:
            print("| method | KL, nat | same top token | perplexity ratio | kept | texts | tokens |", file=out)
            print("|---|---|---|---|---|---|---|", file=out)
        for row in rows:
            print(
                f"| {row['method']} | {shown(row['kl_mean'], '.4f')} | {shown(row['same_top'], '.1%')} | "
                f"{shown(row['perplexity_ratio'], '.4f')} | {shown(row['kept'], '.1%')} | {len(row['texts'])} | "
                f"{row['n_scored']} |",
                file=out,
            )
        if n_left_out > 0:
            print("\nMethods are compared on the texts that all of this share have; ", end="", file=out)
            print(f"results left out: {n_left_out}.", file=out)


def read_pair(path, peer):
    """Values of our cells, of a file whose header is of the same comparison as the peer's."""
    ours, cells = read_fidelity(path)
    if ours["model"].get("fingerprint") != peer["model"].get("fingerprint"):
        raise PeerError(f"cannot compare with {path} (it is of another model; name another file)")
    for key in ("n_prefix", "n_scored"):
        here, there = peer["settings"].get(key), ours["settings"].get(key)
        if here != there:
            raise PeerError(f"cannot compare with {path} (its {key} is {there}, the peer's {here}; name another file)")
    for key in ("k_type", "v_type"):
        here, there = peer["settings"].get(key), ours["settings"].get(key)
        if here != there and not {here, there} <= set(EXACT_TYPES):
            raise PeerError(f"cannot compare with {path} (its {key} is {there}, the peer's {here}; name another file)")
    return cells


def print_beside(header, cells, winnow_path, out):
    """Tables of a peer's cells, and with a path those of ours of the same shares among them."""
    if winnow_path is not None:
        ours = read_pair(winnow_path, header)
        both = {(v["text"], v["text_hash"]) for v in cells} & {(v["text"], v["text_hash"]) for v in ours}
        if not both:
            raise PeerError(f"cannot compare with {winnow_path} (no text is in both; name another file)")
        keeps = {v["keep"] for v in cells}
        cells = [*cells, *(v for v in ours if v["keep"] in keeps)]
    print_tables(summarise(cells), header["settings"]["n_prefix"], out)


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
            print_beside(*read_fidelity(arguments.file), arguments.winnow, sys.stdout)
    except (OSError, PeerError) as error:
        print(f"peer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
