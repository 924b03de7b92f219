"""Multi-token prediction: a layer more, fed with hidden states and the next tokens' embeddings, and its own loss.

Embedding and head are the model's own. Source: DeepSeek-V3 report (arXiv:2412.19437), section 2.2.
"""

from collections.abc import Callable
from dataclasses import replace

from workloads.layers.elementwise import norm
from workloads.layers.ends import embedding, head
from workloads.layers.linear import column
from workloads.layers.part import Part
from workloads.layers.sizes import Sizes
from workloads.matrices import mtp_kind
from workloads.model import LayerKind


def mtp_parts(sizes: Sizes, layer: Callable[[Sizes, LayerKind], list[Part]]) -> list[Part]:
    """Return the parts of one prediction depth; ``layer`` makes those of the layer in it."""
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
    return replace(part, weights=0.0)
