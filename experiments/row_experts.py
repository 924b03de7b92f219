"""Experts of a measured run: how tokens reach them, as a row's notes say or its framework does."""

import re
from collections.abc import Mapping
from typing import Any

from experiments.row_software import Habits
from experiments.row_text import Row, text, whole
from workloads.model import Model

DISPATCHERS = (
    (r"deepep|hybrid-?ep", "deepep"),
    (r"dispatcher[= ]*(a2a|all-?to-?all)|alltoall dispatcher", "alltoall"),
    (r"dispatcher[= ]*all-?gather|allgather dispatcher", "allgather"),
)
"""Word of the notes -> how tokens travel; HybridEP is DeepEP's kernel for NVLink domains beyond a host."""
CAPACITY = re.compile(r"capacity(?: factor)?\s*(\d+(?:\.\d+)?)")
DROPS = re.compile(r"token-?drop(?!less)|(?<!no )dropping")
WITHOUT_MTP = re.compile(r"w/o mtp|without mtp|no mtp")
EP_OVERLAP = re.compile(r"a2a overlap|ep comm overlap|1f1b overlap")
MEAN_LOAD = 1.0
"""Capacity of token dropping where it is not stated: what a balanced router needs."""


def experts_of(
    row: Row, values: Mapping[str, Any], model: Model, habits: Habits, notes: list[str]
) -> dict[str, Any]:
    """Return ep, etp and how tokens travel; etp left blank is tp, Megatron's default, where that divides."""
    if not model.is_moe:
        return {"ep": 1, "etp": 1}
    words = f"{text(row, 'framework')}; {text(row, 'notes')}".lower()
    found: dict[str, Any] = {"ep": whole(row, "ep") or 1, "etp": _etp(row, values, model, notes)}
    found |= _capacity(words, notes)
    named = next((name for pattern, name in DISPATCHERS if re.search(pattern, words)), "")
    if found["ep"] > 1 and (named or habits.dispatcher):
        found["dispatcher"] = named or habits.dispatcher
        found |= {"dispatch_dtype": habits.dispatch_dtype, "comm_sms": habits.comm_sms}
    if found["ep"] == 1 and named:
        notes.append(f"dispatcher {named}: left out, tokens do not travel with ep=1")
    if found["ep"] > 1 and not named and habits.dispatcher:
        notes.append(
            f"dispatcher not stated: {habits.dispatcher}, as the framework's recipes set it"
        )
    if EP_OVERLAP.search(words):
        found["overlap_ep"] = "on"
    if model.num_mtp_layers and habits.mtp and not WITHOUT_MTP.search(words):
        found["mtp"] = True
        notes.append("multi-token prediction: trained, as the framework's recipes do")
    return found


def _etp(row: Row, values: Mapping[str, Any], model: Model, notes: list[str]) -> int:
    ep, etp = whole(row, "ep") or 1, whole(row, "etp")
    if etp is not None:
        return etp
    ranks = values["tp"] * values["cp"] * values["dp"]
    fits = ranks % (ep * values["tp"]) == 0 and model.expert_ffn_size % values["tp"] == 0
    if values["tp"] > 1:
        notes.append(f"etp not stated: {values['tp'] if fits else 1}")
    return int(values["tp"]) if fits else 1


def _capacity(words: str, notes: list[str]) -> dict[str, Any]:
    """Return how many tokens an expert takes: all, or up to a stated capacity (padded, as recipes that drop set)."""
    stated = CAPACITY.search(words)
    if not stated and not DROPS.search(words):
        return {}
    capacity = float(stated[1]) if stated else MEAN_LOAD
    if not stated:
        notes.append(f"tokens dropped, capacity not stated: {capacity:g}")
    return {"dropless": False, "capacity": capacity, "pad_to_capacity": "on"}
