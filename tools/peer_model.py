# SPDX-License-Identifier: MIT
"""A GGUF model and its tokenizer for peers that run on transformers. Needs torch, transformers and gguf."""

import os

import torch
import transformers
from gguf import GGUFReader
from peer_results import PeerError
from tokenizers import Tokenizer, models, pre_tokenizers

# Kinds of tokenizers (tokenizer.ggml.pre) that have each digit alone.
DIGITS_ALONE = ("smollm", "refact", "starcoder", "command-r")


def open_model(path):
    """The GGUF's weights as 32-bit floats in transformers' implementation."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    folder, name = os.path.split(os.path.abspath(path))
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.float32, attn_implementation="sdpa"
    )
    return model.eval()


def field(reader, name, preset=None):
    """A member of the GGUF's metadata."""
    found = reader.fields.get(name)
    return preset if found is None else found.contents()


def open_tokenizer(path):
    """The GGUF's tokenizer, with the steps in front of it that llama.cpp takes for its kind."""
    reader = GGUFReader(path)
    kind, pre = field(reader, "tokenizer.ggml.model"), field(reader, "tokenizer.ggml.pre", "default")
    if kind != "gpt2" or pre not in (*DIGITS_ALONE, "gpt-2"):
        raise PeerError(f"cannot tokenize for {path} (tokenizer {kind}, {pre}; take a model with SmolLM2's)")
    tokens = field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in field(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    bytes_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alone = [pre_tokenizers.Digits(individual_digits=True)] if pre in DIGITS_ALONE else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*alone, bytes_level])
    begins = field(reader, "tokenizer.ggml.add_bos_token", False)
    begin = field(reader, "tokenizer.ggml.bos_token_id") if begins else None
    return tokenizer, begin, describe(reader)


def describe(reader):
    """A line about the model, for readers."""
    parts = [field(reader, "general.architecture"), field(reader, "general.name")]
    return " ".join(part for part in parts if part)


def tokenize(tokenizer, begin, text):
    """Ids of a text, as `winnow bench fidelity` has them."""
    return ([begin] if begin is not None else []) + tokenizer.encode(text, add_special_tokens=False).ids
