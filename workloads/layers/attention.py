"""Attention blocks: projections split over tp, the core over cp."""

from dataclasses import replace

from sim.errors import PlanError
from sim.kernels.shapes import Memory
from sim.program import Compute
from workloads.layers.context import SPANS
from workloads.layers.core import flash, qkv_bytes, unfused
from workloads.layers.elementwise import norm, residual, rotary
from workloads.layers.linear import column, replicated, row
from workloads.layers.part import Part, again, join, lanes
from workloads.layers.sizes import Sizes
from workloads.model import LayerKind


def attention_block(sizes: Sizes, kind: LayerKind) -> list[Part]:
    """Return norm, projections, core and residual of one layer."""
    model, tp = sizes.model, sizes.plan.tp
    heads = model.num_heads // tp
    kv_heads = max(model.num_kv_heads // tp, 1)
    h = model.hidden_size
    window = model.window_size if kind.attention == "window" else 0
    parts = [norm(sizes, "attn_norm", feeds=True)]
    if model.is_mla:
        parts += _latent_projections(sizes, heads)
        kv_heads = heads
    else:
        queries = heads * model.head_dim * (2 if model.attention_gate else 1)
        outputs = queries + kv_heads * (model.qk_dim + model.v_dim)
        parts.append(column(sizes, "qkv", h, outputs, bias=model.qkv_bias))
    if model.positions == "rotary":
        rotary_dim = model.qk_rope_head_dim if model.is_mla else model.head_dim
        parts.append(rotary(sizes, heads, kv_heads, rotary_dim))
    if not sizes.software.packed_qkv:
        parts.append(_copies(sizes, heads, kv_heads))
    spread = core(sizes, heads, kv_heads, window)
    if sizes.recomputes("norm"):
        parts[1] = again(parts[1], parts[0].forward, parts[1].saved)
    if sizes.plan.recompute == "selective" and not sizes.recomputes("core_attn"):
        spread = replace(spread, recomputed={}, recomputed_bytes=0.0)
    if sizes.recomputes("mla_up_proj") and model.is_mla:
        ups = join(part.forward for part in parts if part.name in ("q_up", "kv_up", "rotary"))
        spread = again(spread, ups, qkv_bytes(sizes, heads, kv_heads))
    parts.append(spread)
    parts.append(row(sizes, "attn_out", heads * model.v_dim, h, bias=model.out_bias))
    if model.norms_per_layer == 4:
        parts.append(norm(sizes, "post_attn_norm", branches=False))
    parts.append(residual(sizes, "attn_add"))
    return parts


def _copies(sizes: Sizes, heads: int, kv_heads: int) -> Part:
    """Return the copy that joins the gradients of q, k and v for their common projection."""
    nbytes = 2.0 * qkv_bytes(sizes, heads, kv_heads)
    return Part(name="qkv_join", backward=lanes(Compute("qkv.join", Memory("copy", nbytes), "B")))


def _latent_projections(sizes: Sizes, heads: int) -> list[Part]:
    """DeepSeek's multi-head latent attention: down-projections whole on each rank, up-projections by heads."""
    model = sizes.model
    h = model.hidden_size
    kv_down = replicated(sizes, "kv_down", h, model.kv_lora_rank + model.qk_rope_head_dim)
    kv_down = replace(kv_down, saved=0.0)  # its input is kept for the queries
    kv_up = column(
        sizes, "kv_up", model.kv_lora_rank, heads * (model.qk_nope_head_dim + model.v_head_dim)
    )
    if not model.q_lora_rank:
        return [column(sizes, "q", h, heads * model.qk_dim), kv_down, kv_up]
    q_down = replicated(sizes, "q_down", h, model.q_lora_rank)
    q_up = column(sizes, "q_up", model.q_lora_rank, heads * model.qk_dim)
    return [q_down, q_up, kv_down, kv_up]


def core(sizes: Sizes, heads: int, kv_heads: int, window: int) -> Part:
    """Return scores, softmax and weighted values. Raises `PlanError` where unfused kernels cannot."""
    if sizes.attention == "unfused":
        for name, neutral in (("cp", 1), ("documents", "")):
            value = getattr(sizes.plan, name)
            if value != neutral:
                raise PlanError(
                    f"{name}={value} needs a flash attention kernel; attention={sizes.attention!r} keeps the whole "
                    f"score matrix: use {name}={neutral!r}, or attention='te'"
                )
        return unfused(sizes, heads)
    if sizes.plan.cp == 1:
        return flash(sizes, heads, kv_heads, window)
    return SPANS[sizes.plan.context](sizes, heads, kv_heads, window)
