"""Multi-token prediction: a layer more, fed with hidden states and the next tokens' embeddings, and its own loss.

Embedding and head are the model's own. Source: DeepSeek-V3 report (arXiv:2412.19437), section 2.2. A layer may be
applied more than once, on its own output, to predict further tokens with the same weights
(Megatron-Core's ``mtp_use_repeated_layer``, as in Nemotron 3 Super).
"""

from collections.abc import Callable
from dataclasses import replace

from workloads.layers.elementwise import norm
from workloads.layers.ends import embedding, head, wide
from workloads.layers.linear import column
from workloads.layers.part import Part
from workloads.layers.sizes import Sizes
from workloads.matrices import mtp_kind
from workloads.model import LayerKind


def mtp_parts(sizes: Sizes, layer: Callable[[Sizes, LayerKind], list[Part]]) -> list[Part]:
    """Return the parts of one prediction layer, all its passes; ``layer`` makes those of the layer in it."""
    if sizes.model.mtp_wide:
        sizes = wide(sizes)
    first = _pass(sizes, layer)
    again = [_shared(part) for part in first]
    return [*first, *again * (sizes.model.mtp_passes - 1)]


def _pass(sizes: Sizes, layer: Callable[[Sizes, LayerKind], list[Part]]) -> list[Part]:
    """Return the parts of one pass: join hidden states and embeddings, layer, head and loss."""
    h, tp = sizes.model.hidden_size, sizes.plan.tp
    found = [
        _shared(embedding(sizes)),
        norm(sizes, "mtp_embedding_norm"),
        norm(sizes, "mtp_hidden_norm"),
        column(sizes, "mtp_proj", 2 * h, h // tp),
    ]
    found += layer(sizes, mtp_kind(sizes.model))
    final, projection, loss = head(sizes)
    return [*found, final, _shared(projection), loss]


def _shared(part: Part) -> Part:
    """Return a part whose weights are counted where the model holds them."""
    return replace(part, weights=0.0, expert_weights=0.0)
