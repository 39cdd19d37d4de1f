#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tiny models with random weights, one of each architecture in the table below.

    make_zoo.py FOLDER [NAME...]

Weights are drawn from a seed that follows from the name, so that a file is the same wherever it is
made. They are 32-bit floats, scaled so that attention is far from uniform and logits differ from
token to token: a wrong mask, window or rotation changes them by much more than rounding does.

The Python package gguf must be importable, or WINNOW_GGUF_WHEEL must name its wheel.
"""

import os
import re
import sys
import zlib
from pathlib import Path

if os.environ.get("WINNOW_GGUF_WHEEL"):
    sys.path.insert(0, os.environ["WINNOW_GGUF_WHEEL"])
try:
    import numpy as np
    import gguf
except ImportError as error:
    print(f"make_zoo: skipped ({error})", file=sys.stderr)
    sys.exit(77)

# ---- a vocabulary ----

N_BYTES = 256
WORDS = [f"\u2581w{i}" for i in range(57)]


# Of a chat template that llama.cpp knows.
TURNS = ["<|im_start|>", "<|im_end|>"]
TEMPLATE = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
            "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{{ '<|im_start|>assistant\\n' }}")


def word_prefixes():
    """Beginnings of the words of an English text, by which Sentencepiece joins letters to words."""
    text = Path(__file__).parents[2] / "benchmarks" / "texts" / "narrative.txt"
    words = set(re.findall(r"[A-Za-z]+", text.read_text(encoding="utf-8")))
    return sorted({"\u2581" + word[:n] for word in words for n in range(1, len(word) + 1)})


def add_vocabulary(writer, turns):
    """Sentencepiece: three control tokens, every byte, and some words; then turns and English."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(N_BYTES)] + WORDS
    types = [2, 3, 3] + [6] * N_BYTES + [1] * len(WORDS)
    if turns:
        prefixes = word_prefixes()
        tokens += TURNS + prefixes
        types += [3] * len(TURNS) + [1] * len(prefixes)
        writer.add_string("tokenizer.chat_template", TEMPLATE)
    writer.add_string("tokenizer.ggml.model", "llama")
    writer.add_array("tokenizer.ggml.tokens", tokens)
    writer.add_array("tokenizer.ggml.scores", [float(-i) for i in range(len(tokens))])
    writer.add_array("tokenizer.ggml.token_type", types)
    writer.add_uint32("tokenizer.ggml.bos_token_id", 1)
    writer.add_uint32("tokenizer.ggml.eos_token_id", 2)
    writer.add_uint32("tokenizer.ggml.unknown_token_id", 0)
    return len(tokens)


# ---- a model ----

# What a row of the table may say; each architecture needs some of it.
DEFAULTS = dict(
    layers=3,
    d=64,
    heads=4,  # query heads; a list: of each layer
    kv=2,  # KV heads; likewise
    dk=16,
    dv=None,  # dk
    rot=None,  # rotated dimensions: dk
    ff=96,
    norm="rms",  # rms, layer (with a bias), none
    qkv="split",  # split, fused
    qkv_bias=False,
    o_bias=False,
    qk_norm=None,  # head (one weight per dimension), all (one per coordinate), heads (all, in 2-d)
    norms=("attn_norm", "ffn_norm"),
    ffn="gated",  # gated, plain, joined (gate and up in one), moe
    ffn_bias=False,
    experts=4,
    used=2,
    expert_ff=48,
    dense=0,  # first layers without experts
    shared=0,  # width of the expert that all tokens use
    shared_gate=False,
    expert_bias=False,  # of the choice
    output=True,  # of its own; otherwise the embeddings
    output_bias=False,
    output_norm=True,
    meta={},  # further metadata, without the architecture's prefix
    tensors=None,  # function(model) that adds further tensors
    talks=False,  # has a chat template, and says words
)


class Model:
    def __init__(self, folder, name, row):
        self.__dict__.update(DEFAULTS)
        self.__dict__.update(row)
        self.name = name
        self.dv = self.dv or self.dk
        self.random = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
        self.writer = gguf.GGUFWriter(str(folder / f"{name}.gguf"), self.arch)

    def of_layer(self, value, layer):
        return value[layer] if isinstance(value, list) else value

    # -- tensors; shapes are as numpy has them: rows of what goes out, columns of what comes in

    def add(self, name, values):
        self.writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))

    def matrix(self, name, n_out, n_in, gain=1.0, n=None):
        shape = (n_out, n_in) if n is None else (n, n_out, n_in)
        self.add(f"{name}.weight", self.random.standard_normal(shape) * gain / np.sqrt(n_in))

    def vector(self, name, n, mean=0.0, deviation=0.3):
        self.add(name, mean + deviation * self.random.standard_normal(n))

    def words(self):
        """Logits of words are spread about 0, and all others are 0: the largest one is a word's."""
        rows = np.zeros((self.vocab, self.d))
        shape = (len(WORDS), self.d)
        rows[3 + N_BYTES:][:len(WORDS)] = self.random.standard_normal(shape) * 4 / np.sqrt(self.d)
        self.add("output.weight", rows)

    def norm_of(self, name, n=None):
        if self.norm == "none":
            return
        self.vector(f"{name}.weight", n or self.d, 1.0, 0.2)
        if self.norm == "layer":
            self.vector(f"{name}.bias", n or self.d)

    def gain_norm(self, name, shape):
        """Norm of queries or keys: its weights set how sharp attention is."""
        self.add(f"{name}.weight", 1.3 + 0.3 * self.random.standard_normal(shape))

    def attention(self, i):
        at = f"blk.{i}."
        heads, kv = self.of_layer(self.heads, i), self.of_layer(self.kv, i)
        widths = [("attn_q", heads * self.dk, 1.4), ("attn_k", kv * self.dk, 1.4),
                  ("attn_v", kv * self.dv, 1.0)]
        if self.qkv == "fused":
            rows = [self.random.standard_normal((n, self.d)) * gain for _, n, gain in widths]
            self.add(at + "attn_qkv.weight", np.concatenate(rows) / np.sqrt(self.d))
            if self.qkv_bias:
                self.vector(at + "attn_qkv.bias", sum(n for _, n, _ in widths))
        else:
            for name, n, gain in widths:
                self.matrix(at + name, n, self.d, gain)
                if self.qkv_bias:
                    self.vector(f"{at}{name}.bias", n)
        for name, n in (("attn_q_norm", heads), ("attn_k_norm", kv)):
            if self.qk_norm is not None:
                shape = {"head": self.dk, "all": n * self.dk, "heads": (n, self.dk)}[self.qk_norm]
                self.gain_norm(at + name, shape)
        self.matrix(at + "attn_output", self.d, heads * self.dv)
        if self.o_bias:
            self.vector(at + "attn_output.bias", self.d)

    def gated(self, at, suffix, ff):
        for name, out, into in (("gate", ff, self.d), ("up", ff, self.d), ("down", self.d, ff)):
            self.matrix(f"{at}ffn_{name}{suffix}", out, into)

    def feed_forward(self, i):
        at, ff, d = f"blk.{i}.", self.of_layer(self.ff, i), self.d
        if self.ffn == "moe" and i >= self.dense:
            # So clear a choice that rounding does not change it.
            self.matrix(at + "ffn_gate_inp", self.experts, d, 6.0)
            if self.expert_bias:
                self.vector(at + "exp_probs_b.bias", self.experts, 0.0, 0.1)
            if self.shared_gate:
                self.vector(at + "ffn_gate_inp_shexp.weight", d)
            if self.shared > 0:
                self.gated(at, "_shexp", self.shared)
            for name, out, into in (("gate", self.expert_ff, d), ("up", self.expert_ff, d),
                                    ("down", d, self.expert_ff)):
                self.matrix(f"{at}ffn_{name}_exps", out, into, n=self.experts)
                if self.ffn_bias:
                    self.add(f"{at}ffn_{name}_exps.bias",
                             0.1 * self.random.standard_normal((self.experts, out)))
            if self.ffn_bias:
                self.vector(at + "ffn_gate_inp.bias", self.experts)
            return
        if self.ffn in ("gated", "moe"):
            self.gated(at, "", ff)
            return
        for name in ("up", "down"):
            out, into = (d, ff) if name == "down" else (ff, d)
            if self.ffn == "joined" and name == "up":
                out = 2 * ff
            self.matrix(f"{at}ffn_{name}", out, into)
            if self.ffn_bias:
                self.vector(f"{at}ffn_{name}.bias", out)

    # -- metadata

    def set(self, key, value):
        key = key if key.startswith(("general.", "xielu.")) else f"{self.arch}.{key}"
        if isinstance(value, bool):
            self.writer.add_bool(key, value)
        elif isinstance(value, int):
            self.writer.add_uint32(key, value)
        elif isinstance(value, float):
            self.writer.add_float32(key, value)
        elif isinstance(value, str):
            self.writer.add_string(key, value)
        else:
            self.writer.add_array(key, list(value))

    def metadata(self):
        values = {
            "context_length": 1024,
            "embedding_length": self.d,
            "block_count": self.layers,
            "feed_forward_length": self.ff,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.kv,
            "attention.key_length": self.dk,
            "attention.value_length": self.dv,
            "rope.dimension_count": self.rot if self.rot is not None else self.dk,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "attention.layer_norm_epsilon": 1e-5,
        }
        if self.ffn == "moe":
            values["expert_count"] = self.experts
            values["expert_used_count"] = self.used
            values["expert_feed_forward_length"] = self.expert_ff
            if self.dense > 0:
                values["leading_dense_block_count"] = self.dense
        values.update(self.meta)
        for key, value in values.items():
            if value is not None:
                self.set(key, value)

    def write(self):
        self.metadata()
        self.vocab = add_vocabulary(self.writer, self.talks)
        self.add("token_embd.weight", self.random.standard_normal((self.vocab, self.d)))
        if not getattr(self, "bare", False):
            self.body()
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()

    def body(self):
        if self.output_norm:
            self.norm_of("output_norm")
        if self.output and self.talks:
            self.words()
        elif self.output:
            self.matrix("output", self.vocab, self.d, 2.0)
        if self.output_bias:
            self.vector("output.bias", self.vocab)
        for i in range(self.layers):
            has_attention = self.of_layer(self.heads, i) > 0
            for name in self.norms:
                if has_attention or name != "attn_norm":
                    self.norm_of(f"blk.{i}.{name}")
            if has_attention:
                self.attention(i)
            self.feed_forward(i)
        if self.tensors is not None:
            self.tensors(self)


# ---- the table ----


def sinks(m):
    for i in range(m.layers):
        m.vector(f"blk.{i}.attn_sinks.weight", m.heads, 1.0, 1.0)


def llama3_factors(m):
    m.add("rope_freqs.weight", np.geomspace(1.0, 8.0, m.dk // 2))


def long_factors(m):
    m.add("rope_factors_long.weight", np.geomspace(1.0, 6.0, m.dk // 2))
    m.add("rope_factors_short.weight", np.geomspace(1.0, 1.5, m.dk // 2))


def positions(m):
    m.add("position_embd.weight", m.random.standard_normal((1024, m.d)))


def embedding_norm(m):
    m.norm_of("token_embd_norm")


def second_norms(m):
    for i in range(m.layers):
        m.norm_of(f"blk.{i}.attn_norm_2")


def attention_gates(m):
    for i in range(m.layers):
        m.matrix(f"blk.{i}.attn_gate", m.heads * m.dk, m.d)


def sub_norms(m):
    for i in range(m.layers):
        m.norm_of(f"blk.{i}.attn_sub_norm")
        m.norm_of(f"blk.{i}.ffn_sub_norm", m.ff)


def plain_norms(m):
    for i in range(m.layers):
        m.vector(f"blk.{i}.post_attention_norm", m.d, 1.0, 0.2)
        m.vector(f"blk.{i}.post_ffw_norm", m.d, 1.0, 0.2)


WINDOW = "attention.sliding_window"
PATTERN = "attention.sliding_window_pattern"
SHARED = "expert_shared_count"
SHARED_FF = "expert_shared_feed_forward_length"
GATING = "expert_gating_func"
CLAMP = "attention.clamp_kqv"
SCALING = "rope.scaling.type"
ORIGINAL = "rope.scaling.original_context_length"
FACTOR = "rope.scaling.factor"
SECTIONS = {"rope.dimension_sections": [3, 3, 2, 0]}
AFTER = ("post_attention_norm", "post_ffw_norm")
SANDWICH = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
BIASES = dict(norm="layer", qkv_bias=True, o_bias=True, ffn="plain", ffn_bias=True)
LONG = {SCALING: "longrope", ORIGINAL: 300, "rope.scaling.attn_factor": 1.2}

SERVED = {
    # rotations
    "llama": dict(arch="llama"),
    "llama-factors": dict(arch="llama", tensors=llama3_factors),
    "llama-linear": dict(arch="llama", meta={SCALING: "linear", FACTOR: 2.0}),
    "llama-yarn": dict(arch="llama", meta={SCALING: "yarn", FACTOR: 4.0, ORIGINAL: 128}),
    "llama-longrope": dict(arch="llama", meta=LONG, tensors=long_factors),
    "phi3": dict(arch="phi3", qkv="fused", ffn="joined"),
    "phi3-longrope": dict(arch="phi3", qkv="fused", ffn="joined", meta=LONG, tensors=long_factors),
    "phi3-window": dict(arch="phi3", qkv="fused", ffn="joined", meta={WINDOW: 40}),
    "phi2": dict(arch="phi2", **BIASES, qkv="fused", norms=("attn_norm",), rot=8,
                 output_bias=True),
    "gptneox": dict(arch="gptneox", **BIASES, qkv="fused", rot=4,
                    meta={"use_parallel_residual": True}),
    "gptneox-serial": dict(arch="gptneox", **BIASES, qkv="fused", rot=4,
                           meta={"use_parallel_residual": False}),
    "stablelm": dict(arch="stablelm", norm="layer", rot=4),
    "stablelm-parallel": dict(arch="stablelm", norm="layer", rot=4, norms=("attn_norm",),
                              qk_norm="heads"),
    "gpt2": dict(arch="gpt2", **BIASES, qkv="fused", kv=4, tensors=positions),
    "starcoder": dict(arch="starcoder", **BIASES, qkv="fused", kv=1, tensors=positions),
    "smollm3": dict(arch="smollm3", layers=5),
    "qwen2vl": dict(arch="qwen2vl", qkv_bias=True, meta=SECTIONS),
    "qwen3vl": dict(arch="qwen3vl", qk_norm="head", meta=SECTIONS),
    # norms, biases, parallel parts, scales
    "qwen": dict(arch="qwen", kv=4, qkv="fused", qkv_bias=True,
                 meta={"feed_forward_length": 192}),
    "qwen2": dict(arch="qwen2", qkv_bias=True),
    "qwen3": dict(arch="qwen3", dk=32, qk_norm="head"),
    "gemma": dict(arch="gemma", dk=32, kv=1, output=False),
    "starcoder2": dict(arch="starcoder2", **BIASES),
    "codeshell": dict(arch="codeshell", **BIASES),
    "command-r": dict(arch="command-r", norms=("attn_norm",), output=False,
                      meta={"logit_scale": 0.5}),
    "falcon": dict(arch="falcon", norm="layer", kv=1, qkv="fused", norms=("attn_norm",),
                   ffn="plain"),
    "falcon-40b": dict(arch="falcon", norm="layer", qkv="fused", norms=("attn_norm",),
                       ffn="plain", tensors=second_norms),
    "internlm2": dict(arch="internlm2"),
    "orion": dict(arch="orion", norm="layer"),
    "xverse": dict(arch="xverse"),
    "nemotron": dict(arch="nemotron", norm="layer", ffn="plain", rot=8),
    "arcee": dict(arch="arcee", ffn="plain"),
    "minicpm": dict(arch="minicpm"),
    "granite": dict(arch="granite", meta={"logit_scale": 2.0, "residual_scale": 0.5,
                                          "embedding_scale": 2.0, "attention.scale": 0.3}),
    "olmo": dict(arch="olmo", norm="none", output_norm=False, meta={CLAMP: 3.0}),
    "olmo2": dict(arch="olmo2", norms=AFTER, qk_norm="all"),
    "glm4": dict(arch="glm4", norms=SANDWICH, ffn="joined", rot=8),
    "chatglm": dict(arch="chatglm", qkv="fused", qkv_bias=True, ffn="joined", rot=8),
    "ernie4_5": dict(arch="ernie4_5"),
    "exaone": dict(arch="exaone"),
    "exaone4": dict(arch="exaone4", norms=AFTER, qk_norm="head"),
    "plamo": dict(arch="plamo", norms=("attn_norm",)),
    "seed_oss": dict(arch="seed_oss", dk=32, norms=("attn_norm", "post_attention_norm"),
                     qkv_bias=True),
    "apertus": dict(arch="apertus", ffn="plain", qk_norm="head",
                    meta={"xielu.alpha_n": [0.3] * 3, "xielu.alpha_p": [0.6] * 3,
                          "xielu.beta": [0.5] * 3, "xielu.eps": [1e-6] * 3}),
    "bitnet": dict(arch="bitnet", output=False, tensors=sub_norms),
    "maincoder": dict(arch="maincoder", qk_norm="head"),
    "pangu-embedded": dict(arch="pangu-embedded", qkv_bias=True, o_bias=True),
    "mistral3": dict(arch="mistral3"),
    "hunyuan-dense": dict(arch="hunyuan-dense", qk_norm="head"),
    "jais2": dict(arch="jais2", **BIASES),
    "nanbeige": dict(arch="nanbeige"),
    # layers with head counts of their own
    "openelm": dict(arch="openelm", heads=[4, 8, 6], kv=[2, 4, 3], ff=[96, 64, 128], qkv="fused",
                    qk_norm="head", output=False),
    "deci": dict(arch="deci", heads=[4, 8, 4], kv=[2, 4, 1], ff=[96, 64, 128]),
    # experts
    "llama-moe": dict(arch="llama", ffn="moe", expert_ff=96),
    "qwen2moe": dict(arch="qwen2moe", ffn="moe", qkv_bias=True, shared=96, shared_gate=True,
                     meta={SHARED_FF: 96}),
    "qwen3moe": dict(arch="qwen3moe", ffn="moe", qk_norm="head"),
    "phimoe": dict(arch="phimoe", norm="layer", qkv_bias=True, o_bias=True, output_bias=True,
                   ffn="moe", expert_ff=96),
    "olmoe": dict(arch="olmoe", kv=4, qk_norm="all", ffn="moe", expert_ff=96),
    "granitemoe": dict(arch="granitemoe", ffn="moe", expert_ff=96, shared=48,
                       meta={"logit_scale": 2.0, "attention.scale": 0.3, SHARED_FF: 48}),
    "dbrx": dict(arch="dbrx", qkv="fused", norms=("attn_norm", "attn_output_norm"), ffn="moe",
                 expert_ff=96, meta={CLAMP: 3.0}),
    "deepseek": dict(arch="deepseek", ffn="moe", dense=1, shared=48,
                     meta={SHARED: 1, "expert_weights_scale": 1.0}),
    "dots1": dict(arch="dots1", kv=4, qk_norm="head", ffn="moe", dense=1, shared=48,
                  expert_bias=True, meta={SHARED: 1, GATING: 2}),
    "bailingmoe": dict(arch="bailingmoe", ffn="moe", shared=48,
                       meta={SHARED: 1, "expert_weights_norm": True}),
    "glm4moe": dict(arch="glm4moe", norms=("attn_norm", "post_attention_norm"), qk_norm="head",
                    rot=8, ffn="moe", dense=1, shared=48, expert_bias=True, meta={SHARED: 1}),
    "ernie4_5-moe": dict(arch="ernie4_5-moe", ffn="moe", dense=1, shared=48, expert_bias=True,
                         meta={SHARED_FF: 48, "interleave_moe_layer_step": 1}),
    "hunyuan-moe": dict(arch="hunyuan-moe", dk=32, qk_norm="head", ffn="moe", expert_ff=96, shared=48,
                        meta={SHARED_FF: 48}),
    "minimax-m2": dict(arch="minimax-m2", qk_norm="all", rot=8, ffn="moe", expert_ff=96,
                       expert_bias=True, meta={GATING: 2}),
    # sliding windows
    "gemma2": dict(arch="gemma2", layers=4, norms=SANDWICH, output=False,
                   meta={WINDOW: 24, "attn_logit_softcapping": 3.0,
                         "final_logit_softcapping": 30.0}),
    "gemma3": dict(arch="gemma3", layers=6, kv=1, dk=32, norms=SANDWICH, output=False,
                   qk_norm="head", meta={WINDOW: 70, "rope.freq_base": 1e6}),
    "gpt-oss": dict(arch="gpt-oss", layers=4, qkv_bias=True, o_bias=True, ffn="moe",
                    ffn_bias=True, norms=("attn_norm", "post_attention_norm"), tensors=sinks,
                    meta={WINDOW: 16, SCALING: "yarn", FACTOR: 8.0, ORIGINAL: 128}),
    "cohere2": dict(arch="cohere2", layers=4, norms=("attn_norm",), output=False,
                    meta={WINDOW: 33, "logit_scale": 0.5}),
    "olmo3": dict(arch="olmo2", layers=4, norms=AFTER, qk_norm="all", meta={WINDOW: 100}),
    "mimo2": dict(arch="mimo2", layers=4, dk=24, dv=16, ffn="moe", dense=1, expert_bias=True,
                  tensors=sinks, meta={WINDOW: 20, PATTERN: [0, 1, 1, 0]}),
    "granite_swa": dict(arch="granite_swa", layers=4, tensors=sinks,
                        meta={WINDOW: 12, PATTERN: [1, 0, 1, 0], "logit_scale": 2.0}),
    "afmoe": dict(arch="afmoe", layers=4, norms=SANDWICH, qk_norm="head", ffn="moe", dense=1,
                  expert_bias=True, tensors=attention_gates, meta={WINDOW: 40, SHARED: 0}),
    "smallthinker": dict(arch="smallthinker", layers=4, ffn="moe",
                         meta={WINDOW: 4096, GATING: 1}),
    "plamo3": dict(arch="plamo3", layers=4, dk=24, dv=16, qkv="fused", qk_norm="head",
                   norms=("attn_norm", "ffn_norm"), ffn="joined", tensors=plain_norms,
                   meta={WINDOW: 44, PATTERN: 2}),
    "mellum": dict(arch="mellum", layers=4, qk_norm="head", ffn="moe", meta={WINDOW: 50}),
    "exaone-moe": dict(arch="exaone-moe", layers=4, qk_norm="head", ffn="moe", dense=1, shared=48,
                       expert_bias=True, meta={WINDOW: 30, GATING: 2, SHARED: 1}),
    "wide-window": dict(arch="gemma3", layers=2, norms=SANDWICH, output=False, qk_norm="head",
                        meta={"context_length": 2048, WINDOW: 600, PATTERN: [1, 0]}),
    "every-window": dict(arch="gemma3", layers=3, norms=SANDWICH, output=False, qk_norm="head",
                         meta={WINDOW: 32}),
}

# For tests of the program: as many layers and heads as its default model.
TALKS = {
    "chat": dict(arch="llama", layers=30, heads=9, kv=3, talks=True,
                 meta={"context_length": 8192}),
}

# Refused before any weight is read: metadata alone.
BARE = {name: dict(arch=name, bare=True) for name in (
    "bert", "modern-bert", "nomic-bert", "t5", "t5encoder", "gemma-embedding", "mamba", "mamba2",
    "rwkv6", "rwkv7", "jamba", "falcon-h1", "granitehybrid", "lfm2", "nemotron_h", "qwen3next",
    "kimi-linear", "minimax-01", "plamo2", "dream", "llada", "llama4", "eagle3",
    "wavtokenizer-dec")}
LATENT = {"attention.kv_lora_rank": 16}

REFUSED = BARE | {
    "deepseek2": dict(arch="deepseek2", bare=True, meta=LATENT),
    "minicpm3": dict(arch="minicpm3", bare=True, meta=LATENT),
    "mistral4": dict(arch="mistral4", bare=True, meta=LATENT),
    "no-such-architecture": dict(arch="no-such-architecture", bare=True),
    "llama-partial": dict(arch="llama", rot=8),
    "llama-unlike": dict(arch="llama", dk=16, dv=24),
    # Refused for what their graphs show.
    "mpt": dict(arch="mpt", norm="layer", kv=4, qkv="fused", ffn="plain",
                meta={"attention.max_alibi_bias": 8.0}),
    "bloom": dict(arch="bloom", **BIASES, qkv="fused", kv=4, tensors=embedding_norm),
    "grok": dict(arch="grok", norms=("attn_norm", "attn_output_norm", "ffn_norm",
                                     "layer_output_norm"), ffn="moe",
                 meta={"attn_logit_softcapping": 3.0, "embedding_scale": 2.0,
                       "logit_scale": 1.0}),
    "deci-gap": dict(arch="deci", heads=[4, 0, 4], kv=[2, 0, 2], ff=[96, 96, 96]),
}


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    table = SERVED | TALKS | REFUSED
    for name in sys.argv[2:] or table:
        Model(folder, name, table[name]).write()


if __name__ == "__main__":
    main()
