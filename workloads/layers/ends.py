"""The ends of the model: embedding at the first stage, final norm, vocabulary-parallel head and loss at the last."""

from dataclasses import replace

from sim.kernels.shapes import Memory
from sim.program import Allocate, Collective, Compute, Free
from workloads.layers.elementwise import norm
from workloads.layers.linear import column
from workloads.layers.part import Part, join, lanes
from workloads.layers.sizes import Sizes

LOGITS: dict[str, tuple[float, float]] = {
    "vocab_parallel": (4.0, 0.0),
    "eager": (4.0, 8.0),
    "dropped": (4.0, 8.0),
    "compiled": (0.0, 2.0),
    "chunked": (0.0, 0.0),
}
"""Bytes a logit beside the logits themselves, by kind of loss: kept until backward, and made there.

``vocab_parallel``: Megatron-Core keeps the softmax in fp32 and turns it into the gradient in place. ``eager``: PyTorch
keeps the log-softmax in fp32; its backward makes the gradients of the picked value and of its input, in fp32.
``dropped``: torchtitan's loop deletes the logits before the backward, whose log-softmax does not need them.
``compiled``: one gradient."""


def embedding(sizes: Sizes) -> Part:
    """Return the vocabulary-parallel lookup and, with learned positions, their addition."""
    model, plan = sizes.model, sizes.plan
    parallel = plan.sequence_parallel and plan.tp > 1
    kind = "reduce_scatter" if parallel else "all_reduce"
    learned = model.positions == "learned"
    nbytes = sizes.hidden_bytes
    gather = (
        sizes.tp_collective("embedding.all_gather", "all_gather", nbytes, "W") if parallel else ()
    )
    return Part(
        name="embedding",
        forward=lanes(
            Compute("embedding", Memory("embedding", 2 * nbytes), "F"),
            *sizes.tp_collective(f"embedding.{kind}", kind, nbytes, "F"),
            *(
                (sizes.elementwise("positions", "add", 3 * sizes.local_hidden_bytes, "F"),)
                if learned
                else ()
            ),
        ),
        weight=lanes(*gather, Compute("embedding.grad", Memory("embedding", 3 * nbytes), "W")),
        saved=8.0 * sizes.tokens
        + (sizes.local_hidden_bytes / sizes.value if plan.dropout else 0.0),
        weights=float(vocab_slice(sizes) * model.hidden_size)
        + (float(model.max_positions * model.hidden_size) if learned else 0.0),
    )


def vocab_slice(sizes: Sizes) -> int:
    """Rows of the vocabulary on one tp rank (padded up)."""
    return -(-sizes.model.vocab_size // sizes.plan.tp)


def wide(sizes: Sizes) -> Sizes:
    """Return sizes whose products are not quantised: frameworks leave the head in the activations' precision."""
    return replace(sizes, plan=replace(sizes.plan, dtype=sizes.wide_dtype))


def head(sizes: Sizes, *, shared: bool = False) -> list[Part]:
    """Return final norm, projection to logits, and cross-entropy; ``shared``: its weights are the embedding's.

    What is kept of logits, and what more its backward makes, is the software's ``loss``: see `LOGITS`.
    """
    model, plan = sizes.model, sizes.plan
    projection = column(
        wide(sizes), "head", model.hidden_size, vocab_slice(sizes), bias=model.head_bias
    )
    logits = float(sizes.tokens) * vocab_slice(sizes)
    kept, made = LOGITS[sizes.loss]
    held = logits * (sizes.value + kept)
    more = logits * made
    if sizes.loss == "dropped":
        held = logits * kept
    if sizes.loss == "chunked":
        held = more = 0.0
    statistics = [
        Collective(f"loss.{what}", "all_reduce", "tp", 4.0 * sizes.tokens, "F")
        for what in ("max", "target", "sum")
        if plan.tp > 1
    ]
    loss = Part(
        name="loss",
        forward=lanes(
            Allocate("logits", held),
            sizes.elementwise(
                "loss", "cross_entropy", logits * (2 * sizes.value + 8.0), "F", passes=1.5
            ),
            *statistics,
        ),
        backward=join(
            (
                lanes(
                    Allocate("logits", more),
                    sizes.elementwise(
                        "loss.bwd", "cross_entropy", logits * (4.0 + sizes.value), "B", passes=3.0
                    ),
                ),
                lanes(Free("logits", held + more)),
            )
        ),
    )
    if shared:
        projection = replace(projection, weights=0.0)
    return [norm(sizes, "final_norm", branches=False), projection, loss]
