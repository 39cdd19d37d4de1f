# SPDX-License-Identifier: MIT
"""The presses of kvpress that are measured. Making one needs kvpress; their names do not."""


def make_scorer(name, **options):
    """A press of kvpress by its class."""

    def make(keep, seed):
        import kvpress

        given = {key: seed if value == "seed" else value for key, value in options.items()}
        # What is kept of n is rounded down, and 1 - (1 - 0.2) is less than 0.2.
        return getattr(kvpress, name)(compression_ratio=max(0.0, 1.0 - keep - 1e-9), **given)

    return make


def make_ada(name):
    """The same with budgets divided among the heads of a layer."""

    def make(keep, seed):
        import kvpress

        return kvpress.AdaKVPress(make_scorer(name)(keep, seed))

    return make


PRESSES = {
    "knorm": make_scorer("KnormPress"),
    "snapkv": make_scorer("SnapKVPress"),
    "streaming_llm": make_scorer("StreamingLLMPress"),
    "expected_attention": make_scorer("ExpectedAttentionPress"),
    "tova": make_scorer("TOVAPress"),
    "observed_attention": make_scorer("ObservedAttentionPress"),
    "pyramidkv": make_scorer("PyramidKVPress"),
    "keydiff": make_scorer("KeyDiffPress"),
    "random": make_scorer("RandomPress", seed="seed"),
    "adakv(snapkv)": make_ada("SnapKVPress"),
    "adakv(expected_attention)": make_ada("ExpectedAttentionPress"),
}
# Looks at the attention of all queries, which only the slow implementation returns.
EAGER = ("ObservedAttentionPress",)


def needs_eager(press):
    """Whether a press needs attention weights of all queries."""
    return type(press).__name__ in EAGER
