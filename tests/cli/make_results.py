# SPDX-License-Identifier: MIT
"""Writes example results of every benchmark into a folder, for the tests of `winnow report`:
make_results.py FOLDER. Values are made up, and the same on every run."""
import json
import math
import random
import sys

# The last one is no method: names in files can be anything.
METHODS = {"min-h --select topk": 1.0, "snapkv": 1.6, "random": 4.0,
           "k-norm </text><script>'`ls`\\\"&amp;": 3.0}
KEEPS = [0.5, 0.2, 0.1]
draw = random.Random(7)


def header(benchmark, **settings):
    return {
        "format": "winnow results", "version": 1, "winnow": "0.1.0", "benchmark": benchmark,
        "model": {"description": "<b>tiny</b> & \"quick\" 1M", "fingerprint": "0123456789abcdef"},
        "settings": settings, "seed": 42, "cpu": "Some CPU"}


def noisy(value):
    return value * math.exp(draw.gauss(0, 0.15))


def fidelity():
    for text in ["narrative", "manual", "letters"]:
        yield {"text": text, "n_prefix": 1500, "n_scored": 64, "method": "llama.cpp", "keep": 1,
               "seed": 42, "kl_mean": noisy(3e-5), "kl_median": noisy(2e-5), "same_top": 1,
               "perplexity_ratio": 1.0001}
        for method, factor in METHODS.items():
            for keep in KEEPS:
                for seed in [42, 43, 44] if method == "random" else [42]:
                    kl = noisy(0.05 * factor * (1 - keep) / keep / 4)
                    yield {"text": text, "n_prefix": 1500, "n_scored": 64, "method": method,
                           "keep": keep, "seed": seed, "kl_mean": kl, "kl_median": kl / 2,
                           "same_top": max(0, 1 - kl / 3), "perplexity_ratio": 1 + kl,
                           "attention_error": [noisy(0.1 * factor) for _ in range(6)],
                           "head_kept": [round(1500 * keep * draw.uniform(0.4, 1.6))
                                         for _ in range(18)],
                           "n_before": 27000, "n_after": round(27000 * keep),
                           "bytes_before": 6912000, "bytes_after": round(6912000 * keep)}


def tasks(names, length):
    for mode in ["agnostic", "aware"]:
        for task in names:
            for sample in range(6):
                for method, factor in {"full": 0.0, **METHODS}.items():
                    for keep in [1] if method == "full" else KEEPS:
                        loss = factor * (1 - keep) * (0.2 if mode == "aware" else 0.35)
                        score = 1.0 if draw.random() < max(0.05, 0.9 - loss) else 0.0
                        yield {"task": task, **length, "mode": mode, "sample": sample,
                               "method": method, "keep": keep, "score": score,
                               "prediction": "</table><script>alert(1)</script>",
                               "n_prompt": 1000, "n_answer": 9, "n_before": 27000,
                               "n_after": round(27000 * keep), "bytes_before": 6912000,
                               "bytes_after": round(6912000 * keep)}


def perplexity():
    for text in ["essays", "chronicle"]:
        for method, budget, factor in [("full", 0, 1.0), ("streaming", 1024, 1.12),
                                       ("min-h", 1024, 1.06), ("streaming", 512, 1.25),
                                       ("min-h", 512, 1.13)]:
            scored = [1023] + [1024] * 7
            nll = [n * math.log(noisy(12) ** 0.2 * 8 * factor) for n in scored]
            yield {"text": text, "method": method, "budget": budget, "n_tokens": 8192,
                   "n_scored": sum(scored), "nll": sum(nll), "perplexity": 0.0, "part_nll": nll,
                   "part_scored": scored, "peak_entries": budget or 8192,
                   "n_compressions": 15 if budget else 0, "n_rebased": 0,
                   "bytes": 23040 * (budget or 8192)}


def attention_error():
    series = [("sampled, uncorrected", None, 1.0)]
    series += [(f"sampled, corrected, tau={t}", t, 0.5 + abs(math.log(t / 5)) / 4)
               for t in [1, 2, 5, 10, 50]]
    for text in ["letter"]:
        for name, tau, factor in series + [("top-k", 0, 0.7)]:
            for keep in [0.9, 0.7, 0.5, 0.3, 0.1]:
                for seed in [42, 43]:
                    error = noisy(0.05 * factor * (1 - keep))
                    values = {"text": text, "series": name, "policy": "h2o", "keep": keep,
                              "kept": keep * 0.97, "compression": 1 - keep * 0.97, "seed": seed,
                              "mean_absolute_error": error, "relative_error": error * 6,
                              "n_heads": 54}
                    yield values if name == "top-k" else {**values, "tau": tau}


def ratio():
    for text in ["narrative", "manual"]:
        for budget in ["head", "global"]:
            for keep in KEEPS:
                for seed in [42, 43]:
                    kept = keep * (1 + draw.uniform(-0.05, 0.05))
                    yield {"text": text, "budget": budget, "method": "min-h", "keep": keep,
                           "kept": kept, "seed": seed, "n_before": 27000,
                           "n_after": round(27000 * kept)}


def speed():
    for length in [1024, 2048, 4096]:
        race = {"threads": 2, "type": "f16", "length": length}
        base = length / 250
        peers = {f"llama_{peer}_seconds": [noisy(base * f) for _ in range(3)]
                 for peer, f in [("flash", 1.0), ("plain", 1.2), ("q8_0", 1.1)]}
        yield {**race, "seconds": [noisy(base) for _ in range(3)],
               "observed_seconds": [noisy(base * 1.1) for _ in range(3)], **peers,
               "policy": "foresight", "resident_bytes": 23040 * length}
        for keep in [1, 0.5, 0.2]:
            token = 0.16 + length * keep * 2e-5
            peers = {f"llama_{peer}_seconds": [noisy((0.16 + length * 2e-5) * f) for _ in range(3)]
                     for peer, f in [("flash", 1.0), ("plain", 1.1), ("q8_0", 1.2)]}
            yield {**race, "keep": keep, "tokens": 16, "seconds": [noisy(token) for _ in range(3)],
                   **peers, "bandwidth_bytes_per_second": [2e10, 2.1e10, 2.2e10],
                   "weight_bytes": 97000000, "kv_bytes": round(23040 * length * keep),
                   "slack_bytes": 1000, "resident_bytes": round(24000 * length * keep),
                   "entries": round(90 * length * keep), "compress_seconds": 0.5}


def cell_name(values):
    keys = ["text", "task", "mode", "sample", "series", "budget", "method", "threads", "type",
            "length", "keep", "seed"]
    if "threads" in values:
        name = "decode" if "keep" in values else "prefill"
        name += " threads=%d type=%s length=%d" % (
            values["threads"], values["type"], values["length"])
        return name + (" keep=%.6g%%" % (100 * values["keep"]) if "keep" in values else "")
    return " ".join(f"{key}={values[key]}" for key in keys if key in values)


def write(folder, name, head, cells):
    with open(f"{folder}/{name}.jsonl", "w", encoding="utf-8") as file:
        for line in [head] + [{"cell": cell_name(values), "values": values} for values in cells]:
            print(json.dumps(line), file=file)


def main(folder):
    write(folder, "fidelity", header("fidelity", n_prefix=1500, n_scored=64), list(fidelity()))
    write(folder, "ruler", header("ruler", samples=6),
          list(tasks(["niah_single_1", "vt", "<i>qa</i>|1"], {"length": 1024})))
    write(folder, "longbench", header("longbench", limit=6), list(tasks(["qasper", "trec"], {})))
    write(folder, "perplexity", header("perplexity"), list(perplexity()))
    write(folder, "attention-error", header("attention-error"), list(attention_error()))
    write(folder, "ratio", header("ratio"), list(ratio()))
    write(folder, "speed", header("speed", rounds=3, decode_tokens=16), list(speed()))


if __name__ == "__main__":
    main(sys.argv[1])
