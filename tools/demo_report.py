#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the answers and figures of the demo: demo_report.py RESULT.json QUESTIONS.txt"""

import json
import sys
import textwrap

WIDTH = 92


def show(label, text, found):
    """One answer on a few lines, marked when it holds the expected words."""
    lines = textwrap.wrap(" ".join(text.split()) or "(nothing)", WIDTH - 17)
    if len(lines) > 3:
        lines = lines[:3]
        lines[-1] += " ..."
    print(f"   {'+' if found else '-'} {label:<11} {lines[0]}")
    for line in lines[1:]:
        print(" " * 17 + line)


def mebibytes(n):
    return "unknown" if n is None else f"{n / 2**20:.1f} MiB"


def speed(answers):
    seconds = sum(a["decode_seconds"] for a in answers)
    n_tokens = sum(a["decoded_tokens"] for a in answers)
    return f"{n_tokens / seconds:.1f} tok/s" if seconds > 0 else "-"


def row(name, full, kept):
    print(f"   {name:<26}{full:>14}{kept:>14}")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        result = json.load(file)
    with open(sys.argv[2], encoding="utf-8") as file:
        expected = dict(line.rstrip("\n").split("\t")[:2] for line in file if "\t" in line)
    answers = result["answers"]
    fulls = [a["full"] for a in answers]
    compressions = [a["compression"] for a in answers]
    share = 100 * sum(c["kept_share"] for c in compressions) / len(answers)
    n_found = {"full": 0, "kept": 0}
    for i, answer in enumerate(answers):
        words = expected[answer["question"]]
        found_full = words.lower() in answer["full"]["text"].lower()
        found_kept = words.lower() in answer["text"].lower()
        n_found["full"] += found_full
        n_found["kept"] += found_kept
        print(f"{i + 1}. {answer['question']}  (expected: {words})")
        show("full cache", answer["full"]["text"], found_full)
        show(f"{share:.0f} % of it", answer["text"], found_kept)
        print()

    n = len(answers)
    comparisons = [a["comparison"] for a in answers]
    n_tokens = sum(c["tokens"] for c in comparisons)
    kl = sum(c["kl_mean_nat"] * c["tokens"] for c in comparisons if c["tokens"]) / max(n_tokens, 1)
    memory = result["memory"]
    row("", "full cache", f"{share:.0f} % of it")
    row("expected words found", f"{n_found['full']} of {n}", f"{n_found['kept']} of {n}")
    row("KV cache", mebibytes(sum(c["kv_before_bytes"] for c in compressions) / n),
        mebibytes(sum(c["kv_after_bytes"] for c in compressions) / n))
    row("resident memory, all of it", mebibytes(memory["resident_before_bytes"]),
        mebibytes(memory["resident_after_bytes"]))
    row("answering speed", speed(fulls), speed(answers))
    print()
    prompt, settings = result["prompt"], result["settings"]
    print(textwrap.fill(
        f"The two caches' next-token distributions are {kl:.3f} nat apart (mean KL divergence over "
        f"{n_tokens} tokens of the full answers that each cache was asked for). Reading took {prompt['seconds']:.0f} s at "
        f"{prompt['tokens_per_second']:.0f} tokens per second on {settings['threads']} thread(s). "
        f"Policy {settings['policy']}, --keep {settings['keep']}; tools/demo.sh takes further "
        f"flags, for example --keep 50%.", WIDTH))


if __name__ == "__main__":
    main()
