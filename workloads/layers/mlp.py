"""The dense MLP block: up-projection by columns, activation, down-projection by rows."""

from workloads.layers.elementwise import activation, norm, residual
from workloads.layers.linear import column, row
from workloads.layers.part import Part, again, all_again
from workloads.layers.sizes import Sizes
from workloads.model import LayerKind


def mlp_block(sizes: Sizes, kind: LayerKind) -> list[Part]:
    """Return norm, MLP and residual of one layer."""
    inside = mlp(sizes, "mlp", sizes.model.ffn_size // sizes.plan.tp)
    parts = [
        norm(sizes, "mlp_norm", feeds=True),
        *(all_again(inside) if sizes.recomputes("mlp") else inside),
    ]
    if sizes.recomputes("norm"):
        parts[1] = again(parts[1], parts[0].forward, parts[1].saved)
    if sizes.model.norms_per_layer == 4:
        parts.append(norm(sizes, "post_mlp_norm", branches=False))
    parts.append(residual(sizes, "mlp_add"))
    return parts


def mlp(sizes: Sizes, name: str, width: int) -> list[Part]:
    """Return an MLP of ``width`` on this rank."""
    model = sizes.model
    h, gated = model.hidden_size, model.gated_mlp
    return [
        column(sizes, f"{name}_up", h, width * (2 if gated else 1), bias=model.mlp_bias),
        activation(sizes, f"{name}_act", width, sizes.tokens, gated=gated, feeds=True),
        row(sizes, f"{name}_down", width, h, bias=model.mlp_bias),
    ]
