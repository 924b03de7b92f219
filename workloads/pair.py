"""Pair: an overlapped forward and backward (``F&B``) of one rank, interleaved so that travel to experts hides.

Blocks of the two halves take turns on the compute stream; what one sends to experts after a block travels while
the other's next block computes (DualPipe, arXiv:2412.19437, figure 4: MLP of the backward over the forward's
dispatch, MLP of the forward over the backward's, and so on). The backward, which begins with a transfer, goes
first. Its other streams and semaphores get names of their own.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest

from sim.kernels.shapes import Memory
from sim.program import Allocate, Collective, Compute, Free, Merged, Op, Signal, Sync, Wait
from workloads.chunk import GRADS
from workloads.layers.part import COMPUTE, Lanes
from workloads.schedules import Entry, Order

TRAVEL = "ep.pair"
"""Stream of the transfers that hide."""
AXES = ("ep", "etp")
BALANCE = 300.0
"""FLOPs an accelerator computes while it moves a byte (bf16: A100 153, H100 295, B200 281)."""
SHARED = (GRADS,)
"""Semaphores a second half has in common with the rest of its rank."""

Block = tuple[tuple[Op, ...], tuple[Op, ...]]
"""Ops, and the transfers that follow them."""


def second(name: str) -> str:
    """Return the name of a stream or semaphore in the second half of a pair.

    >>> second("tp"), second("params.gathered")
    ('tp.b', 'params.gathered.b')
    """
    return name if name in SHARED else f"{name}.b"


def side_by_side(order: Order) -> Order:
    """Pair each backward with the forward after it (one rank alone: nobody waits in between).

    >>> from workloads.schedules.action import format_order, parse_order
    >>> format_order(side_by_side(parse_order("F0.0 BW0.0 F0.1 BW0.1")))
    'F0.0 F0.1&BW0.0 BW0.1'
    """
    found: list[Entry] = []
    for entry in order:
        last = found[-1] if found else ()
        if len(entry) == len(last) == 1 and (entry[0].kind, last[0].kind) == ("F", "BW"):
            found[-1] = (*entry, *last)
        else:
            found.append(entry)
    return tuple(found)


def interleave(
    forward: Lanes, backward: Lanes, like: tuple[Lanes, Lanes] | None = None
) -> dict[str, tuple[Op, ...]]:
    """Return both halves as one body, blocks taking turns.

    ``like``: halves as long by whose work blocks are cut, so that ranks of unequal work all do the same in the same
    order.
    """
    shape, shape_back = like or (forward, backward)
    body = {stream: ops for stream, ops in forward.items() if stream != COMPUTE}
    body |= {second(stream): renamed(ops) for stream, ops in backward.items() if stream != COMPUTE}
    halves = {"b": renamed(backward.get(COMPUTE, ())), "f": forward.get(COMPUTE, ())}
    shapes = [list(_blocks(half.get(COMPUTE, ()))) for half in (shape_back, shape)]
    turns = max(len(blocks) for blocks in shapes)
    cut = [
        _cut(ops, _split(blocks, turns))
        for ops, blocks in zip(halves.values(), shapes, strict=True)
    ]
    compute: list[Op] = []
    travel: list[Op] = []
    away = dict.fromkeys(halves, False)
    for row in zip_longest(*cut):
        for name, block in zip(halves, row, strict=True):
            go, came = f"pair.{name}.go", f"pair.{name}.came"
            if block is None:
                continue
            compute += [Wait((came,))] if away[name] else []
            compute += block[0]
            away[name] = bool(block[1])
            if block[1]:
                compute.append(Signal((go,)))
                travel += [Wait((go,)), *block[1], Signal((came,))]
    compute += [Wait((f"pair.{name}.came",)) for name in halves if away[name]]
    body[COMPUTE] = tuple(compute)
    return body | {TRAVEL: tuple(travel)} if travel else body


def _cut(ops: tuple[Op, ...], blocks: list[Block]) -> list[Block]:
    """Cut ops into blocks as long as those given."""
    found, place = [], 0
    for inside, travel in blocks:
        middle, end = place + len(inside), place + len(inside) + len(travel)
        found.append((ops[place:middle], ops[middle:end]))
        place = end
    assert place == len(ops), "halves that are alike hold as many ops"
    return found


def _split(blocks: list[Block], most: int) -> list[Block]:
    """Halve the heaviest blocks (dense layers, the head) until there are ``most``, if their ops allow it."""
    found = list(blocks)
    while len(found) < most:
        index = max(
            range(len(found)),
            key=lambda i: _weight(found[i][0]) * (len(found[i][0]) > 1),
            default=-1,
        )
        if index < 0 or len(found[index][0]) < 2:
            break
        ops, travel = found[index]
        half = _weight(ops) / 2.0
        cut = min(range(1, len(ops)), key=lambda i: abs(_weight(ops[:i]) - half))
        found[index : index + 1] = [(ops[:cut], ()), (ops[cut:], travel)]
    return found


def _weight(ops: tuple[Op, ...]) -> float:
    """Roughly how long ops compute, in FLOPs (a byte of memory traffic takes as long as some 300)."""
    kernels = [op.kernel for op in ops if isinstance(op, Compute)]
    return sum(k.nbytes * BALANCE if isinstance(k, Memory) else k.flops for k in kernels)


def _blocks(ops: tuple[Op, ...]) -> Iterator[Block]:
    """Cut ops after each run of transfers to or from experts."""
    block: list[Op] = []
    travel: list[Op] = []
    for op in ops:
        moves = isinstance(op, Collective) and op.axis in AXES
        if travel and not moves:
            yield tuple(block), tuple(travel)
            block, travel = [], []
        (travel if moves else block).append(op)
    if block or travel:
        yield tuple(block), tuple(travel)


def renamed(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """Return ops with their semaphores under the names of a second half."""
    return tuple(_renamed(op) for op in ops)


def _renamed(op: Op) -> Op:
    if isinstance(op, Allocate | Free | Sync | Merged):
        return op
    changes = {
        field: tuple(second(name) for name in getattr(op, field))
        for field in ("waits", "signals", "starts")
        if getattr(op, field, ())
    }
    return replace(op, **changes) if changes else op  # type: ignore[arg-type]
