#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures NVIDIA's kvpress as `winnow bench fidelity` measures Winnow: same GGUF model (its weights as 32-bit
floats), same texts and tokens, same shares. The first run makes a virtual environment from PyPI (6 GB: torch has no
smaller build there). docs/peers.md tells what is compared.

    python3 tools/peer_kvpress.py -m model.gguf -o kvpress.jsonl --winnow fidelity.jsonl
"""

import argparse
import collections
import copy
import functools
import glob
import os
import subprocess
import sys

sys.dont_write_bytecode = True  # beside a script there is no place for it
import peer_results
from peer_presses import PRESSES, needs_eager
from peer_results import PeerError

PACKAGES = {"torch": "2.15.0", "kvpress": "0.5.5", "transformers": "5.2.0", "gguf": "0.19.0", "xxhash": "4.1.0"}
IN_ENVIRONMENT = "WINNOW_PEER_ENVIRONMENT"
PREFIX = "kvpress: "
NO_PRESS = PREFIX + "none"
# Further from 0 than this the full cache and a press that drops nothing do not do the same.
MOST_KL_OF_NOTHING = 1e-9
# And a press used as its users do, and as here, do not keep the same.
MOST_KL_DIFFERENCE = 1e-4


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", default=os.environ.get("WINNOW_MODEL"), help="GGUF model")
    parser.add_argument("-f", "--file", action="append", help="text; default: benchmarks/texts")
    parser.add_argument("-o", "--output", help="file that results are kept in, and gone on with")
    parser.add_argument("--winnow", help="file of `winnow bench fidelity -o`, to print beside")
    parser.add_argument("--press", action="append", help="a press to measure; default: all of them")
    parser.add_argument("--keep", action="append", type=float, help="share kept, 0.2; default: 0.2 and 0.1")
    parser.add_argument("--prefix", type=int, default=1500, help="tokens that are compressed; default 1500")
    parser.add_argument("--scored", type=int, default=64, help="tokens behind them; default 64")
    parser.add_argument("--seed", type=int, default=42, help="seed of what is drawn; default 42")
    parser.add_argument("--threads", type=int, default=1, help="default 1")
    parser.add_argument(
        "--environment",
        default=os.path.join(peer_results.ROOT, "build", "peer"),
        help="folder of the virtual environment; default build/peer",
    )
    parser.add_argument("--list", action="store_true", help="list the presses")
    arguments = parser.parse_args()
    arguments.keep = arguments.keep or [0.2, 0.1]
    arguments.file = arguments.file or sorted(glob.glob(os.path.join(peer_results.ROOT, "benchmarks/texts/*.txt")))
    return arguments


def check(arguments):
    """Refuses what cannot be measured before anything is installed."""
    if not arguments.model or not os.path.isfile(arguments.model):
        raise PeerError("no model given (neither -m nor WINNOW_MODEL names a GGUF file; give one)")
    for keep in arguments.keep:
        if not 0 < keep < 1:
            raise PeerError(f"--keep {keep:g} is refused (not a share below 1; give for example 0.2)")
    if arguments.prefix < 128:
        raise PeerError("the texts are too short (presses look at the last 64 tokens; give --prefix 128 or more)")
    if arguments.scored < 2:
        raise PeerError("too few tokens are scored (each is predicted from the one before; give --scored 2 or more)")
    unknown = sorted(set(arguments.press or []) - set(PRESSES))
    if unknown:
        raise PeerError(f"unknown press {unknown[0]} (--list shows them)")
    names = [cell_name("", arguments, *cell) for cell in cells_of(arguments)]
    if len(set(names)) < len(names):
        raise PeerError("a press or a share is given twice (each is measured once; leave one out)")


# ---- the environment ----


def is_complete(folder, pins):
    """Whether an environment was made with just these packages."""
    path = os.path.join(folder, "complete")
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().split() == pins


def enter_environment(folder):
    """Runs this script again with the packages at hand, installing them first where they are missing."""
    python = os.path.join(folder, "venv", "bin", "python")
    pins = [f"{name}=={version}" for name, version in PACKAGES.items()]
    if not is_complete(folder, pins):
        print(f"peer: installing kvpress and torch from PyPI into {folder} (6 GB)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", os.path.join(folder, "venv")], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", *pins], check=True)
        with open(os.path.join(folder, "complete"), "w", encoding="utf-8") as file:
            file.write("\n".join(pins) + "\n")
    environment = dict(os.environ, HF_HUB_OFFLINE="1", TQDM_DISABLE="1", **{IN_ENVIRONMENT: "1"})
    os.execve(python, [python, os.path.abspath(__file__), *sys.argv[1:]], environment)


# ---- measuring ----


class Prefix:
    """A text's first tokens, read once: the full cache, and what a press gets to see of each layer."""

    def __init__(self, model, ids):
        import torch
        from transformers import DynamicCache

        self.model, self.n, self.seen = model, len(ids), {}
        self.cache = DynamicCache()
        layers = model.model.layers
        for layer in layers:
            layer.self_attn.rotary_emb = model.model.rotary_emb
            layer.self_attn.masked_key_indices = None
        hooks = [layer.self_attn.register_forward_hook(self._see, with_kwargs=True) for layer in layers]
        with torch.no_grad():
            model.model(input_ids=torch.tensor([ids]), past_key_values=self.cache)
        for hook in hooks:
            hook.remove()

    def _see(self, module, _, kwargs, output):
        """Keeps what a press's own hook is called with, but for the cache."""
        attention = output[1]
        self.seen[module.layer_idx] = (
            {key: value for key, value in kwargs.items() if key != "past_key_values"},
            attention,
        )

    def press(self, press):
        """A copy of the cache, compressed: the press's hook is called as the model would call it, layer after
        layer. None: the copy alone."""
        import torch

        cache = copy.deepcopy(self.cache)
        for layer in self.model.model.layers:
            layer.self_attn.masked_key_indices = None
        if press is None:
            return cache
        press.post_init_from_model(self.model)
        with torch.no_grad():
            for layer in self.model.model.layers:
                kwargs, attention = self.seen[layer.self_attn.layer_idx]
                press.forward_hook(layer.self_attn, [], dict(kwargs, past_key_values=cache), (None, attention))
        return cache


def head_lengths(model, cache):
    """Entries kept of each KV head, layer after layer. What is masked is not kept."""
    lengths = []
    for layer in model.model.layers:
        keys = cache.layers[layer.self_attn.layer_idx].keys
        kept = [keys.shape[2]] * keys.shape[1]
        masked = getattr(layer.self_attn, "masked_key_indices", None)
        if masked is not None:
            for head in masked[1].tolist():
                kept[head] -= 1
        lengths += kept
    return lengths


def is_uniform(model, cache):
    """Whether all heads of all layers hold the same number of entries, for which transformers makes a mask."""
    return len(set(head_lengths(model, cache))) == 1


def score(model, cache, ids, n_prefix, one_by_one=False):
    """Log-probabilities of what follows each of the tokens behind the prefix [tokens][vocabulary]. They are fed in one
    step, or one by one where heads hold unlike numbers of entries. Positions go on from the prefix, whatever the cache
    holds."""
    import torch

    n = 1 if one_by_one or not is_uniform(model, cache) else len(ids)
    rows = []
    with torch.no_grad():
        for i in range(0, len(ids), n):
            positions = torch.arange(n_prefix + i, n_prefix + i + n)[None]
            output = model(input_ids=torch.tensor([ids[i : i + n]]), past_key_values=cache, position_ids=positions)
            rows.append(output.logits[0])
    return torch.cat(rows).double().log_softmax(-1)


def compare(full, rows, targets):
    """Distances of next-token distributions, log-probabilities [n][vocabulary], from the full cache's. The n - 1
    targets are the tokens fed but the first, as in src/eval/fidelity.c."""
    kl = (full.exp() * (full - rows)).sum(-1).clamp(min=0)
    losses = [-table[range(len(targets)), targets].mean() for table in (rows, full)]
    return {
        "kl_mean": peer_results.finite(kl.mean().item()),
        "kl_median": peer_results.finite(kl.quantile(0.5).item()),
        "same_top": (full.argmax(-1) == rows.argmax(-1)).double().mean().item(),
        "perplexity_ratio": peer_results.finite((losses[0] - losses[1]).exp().item()),
    }


class Text:
    """A text's prefix and the full cache's predictions behind it."""

    def __init__(self, model, ids, arguments):
        self.model, self.n_prefix = model, arguments.prefix
        self.ids, self.scored = ids[: arguments.prefix], ids[arguments.prefix : arguments.prefix + arguments.scored]
        self.targets = self.scored[1:]
        self.prefix, self.eager = Prefix(model, self.ids), None
        self.full = score(model, self.prefix.press(None), self.scored, self.n_prefix)
        self.n_before = sum(head_lengths(model, self.prefix.cache))

    def eager_prefix(self):
        """The prefix with attention weights, which take gigabytes: made when the first press asks for them."""
        if self.eager is None:
            self.model.set_attn_implementation("eager")
            self.eager = Prefix(self.model, self.ids)
            self.model.set_attn_implementation("sdpa")
        return self.eager

    def measure(self, press):
        """Values of a press."""
        cache = (self.eager_prefix() if needs_eager(press) else self.prefix).press(press)
        kept = head_lengths(self.model, cache)
        rows = score(self.model, cache, self.scored, self.n_prefix)
        return dict(compare(self.full, rows, self.targets), head_kept=kept, n_before=self.n_before, n_after=sum(kept))

    def floor(self):
        """The full cache when the tokens are fed one by one: rounding, and nothing else."""
        rows = score(self.model, self.prefix.press(None), self.scored, self.n_prefix, one_by_one=True)
        return compare(self.full, rows, self.targets)

    def check(self, keep, seed):
        """Presses work here as they do for their users, and one that drops nothing changes nothing."""
        import torch
        from transformers import DynamicCache

        nothing = self.measure(PRESSES["snapkv"](1.0, seed))
        press, cache = PRESSES["snapkv"](keep, seed), DynamicCache()
        with torch.no_grad(), press(self.model):
            self.model.model(input_ids=torch.tensor([self.ids]), past_key_values=cache)
        rows = score(self.model, cache, self.scored, self.n_prefix, one_by_one=True)
        plain = compare(self.full, rows, self.targets)
        here = self.measure(press)
        return check_kl(nothing["kl_mean"], here["kl_mean"], plain["kl_mean"])


def check_kl(nothing, here, plain):
    """A sentence about three KL, of which None is infinite; an error when presses do not work as they should."""
    said = (
        f"KL of nothing dropped {peer_results.shown(nothing, '.1e')}; snapkv {peer_results.shown(here, '.6f')}, "
        f"used plainly {peer_results.shown(plain, '.6f')}"
    )
    is_off = None in (nothing, here, plain) or nothing > MOST_KL_OF_NOTHING or abs(plain - here) > MOST_KL_DIFFERENCE
    if is_off:
        raise PeerError(f"kvpress is not measured as it works ({said}; take the versions that are pinned)")
    return said


# ---- the whole ----


def cells_of(arguments):
    """(press or None, share) in the order in which they are measured; None: the noise floor."""
    names = arguments.press or list(PRESSES)
    return [(None, 1.0)] + [(name, keep) for keep in arguments.keep for name in names]


def cell_name(text, arguments, name, keep):
    method = NO_PRESS if name is None else PREFIX + name
    return (
        f"text={text} prefix={arguments.prefix} scored={arguments.scored} method={method} "
        f"keep={100 * keep:.6g}% seed={arguments.seed}"
    )


# A text as it is named in results, with its tokens.
Source = collections.namedtuple("Source", "name hash ids")


def read_source(path, tokenize, arguments):
    """A text that is long enough."""
    name = os.path.splitext(os.path.basename(path))[0]
    data, text = peer_results.read_text(path)
    ids, n = tokenize(text), arguments.prefix + arguments.scored
    if len(ids) < n:
        raise PeerError(f"the text {path} has {len(ids)} tokens (it needs {n}; lower --prefix or leave it out)")
    return Source(name, peer_results.text_hash(data), ids)


def measure_text(model, source, arguments, results):
    """Measures what is missing of a text."""
    label = f"{source.name}#{source.hash}"
    missing = [c for c in cells_of(arguments) if cell_name(label, arguments, *c) not in results.cells]
    if not missing:
        return
    text = Text(model, source.ids, arguments)
    print(f"peer: {source.name}: {text.check(arguments.keep[0], arguments.seed)}", file=sys.stderr)
    for press, keep in missing:
        values = {
            "text": source.name,
            "text_hash": source.hash,
            "n_prefix": arguments.prefix,
            "n_scored": arguments.scored,
            "method": NO_PRESS if press is None else PREFIX + press,
            "keep": keep,
            "seed": arguments.seed,
        }
        values.update(text.floor() if press is None else text.measure(PRESSES[press](keep, arguments.seed)))
        results.add(cell_name(label, arguments, press, keep), values)
        what = f"{source.name}, {press or 'full cache'}, keep {100 * keep:g} %"
        print(f"peer: {what}: KL {peer_results.shown(values['kl_mean'], '.6f')}", file=sys.stderr)


def make_settings(arguments):
    """What values depend on beside model, text and seed; transformers' cache is of 32-bit floats."""
    lengths = {"n_prefix": arguments.prefix, "n_scored": arguments.scored}
    types = {"k_type": "f32", "v_type": "f32", "implementation": "sdpa, eager for observed_attention"}
    return {**lengths, **types, "peer": "kvpress", **PACKAGES}


def run(arguments):
    import peer_model
    import torch

    torch.set_num_threads(arguments.threads)
    tokenizer, begin, description = peer_model.open_tokenizer(arguments.model)
    tokenize = functools.partial(peer_model.tokenize, tokenizer, begin)
    sources = [read_source(path, tokenize, arguments) for path in arguments.file]
    header = peer_results.make_header(arguments.model, description, arguments.seed, make_settings(arguments))
    if arguments.winnow is not None:
        peer_results.read_pair(arguments.winnow, header)  # which is refused before hours are spent
    results = peer_results.Results(arguments.output, header)
    model = peer_model.open_model(arguments.model)
    for source in sources:
        measure_text(model, source, arguments, results)
    peer_results.print_beside(header, results.cells.values(), arguments.winnow, sys.stdout)


def main():
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join(PRESSES))
        return 0
    try:
        check(arguments)
        if IN_ENVIRONMENT not in os.environ:
            enter_environment(arguments.environment)
        run(arguments)
    except KeyboardInterrupt:
        print("peer: stopped on request (with -o the same command goes on)", file=sys.stderr)
        return 130
    except subprocess.CalledProcessError as error:
        print(
            f"peer: cannot install the packages (pip says why above, {error.returncode}; is PyPI reachable?)",
            file=sys.stderr,
        )
        return 1
    except (OSError, PeerError) as error:
        print(f"peer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
