"""Transfer: one piece of data from one member to another; and the check that rounds of them do a collective.

Members are 0 .. n-1 of a group. A piece of data is a *chunk*; what a member holds of a chunk is the set of members
whose contribution is in it. A round's transfers read what stood before the round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim.errors import CollectiveError


@dataclass(frozen=True, slots=True)
class Transfer:
    """``chunk`` goes from ``src`` to ``dst``; ``add``: it is added to what is there, else it replaces it.

    ``size`` is the chunk's share of the collective's ``nbytes``.
    """

    src: int
    dst: int
    chunk: int
    size: float
    add: bool = False


Round = tuple[Transfer, ...]
State = dict[tuple[int, int], frozenset[int]]
"""(member, chunk) -> contributors."""


def start(kind: str, n: int, chunks: int) -> State:
    """What every member holds before a collective of ``chunks`` chunks.

    Chunk c belongs to member ``c * n // chunks`` where the kind has owners; of an all-to-all, chunk
    ``(i * n + j) * (chunks // n**2) + r`` goes from i to j.
    """
    everyone = {(i, c): frozenset({i}) for i in range(n) for c in range(chunks)}
    if kind in {"all_reduce", "reduce_scatter", "reduce"}:
        return everyone
    if kind in {"all_gather", "gather"}:
        return {(i, c): s for (i, c), s in everyone.items() if c * n // chunks == i}
    if kind in {"broadcast", "scatter"}:
        return {(0, c): frozenset({0}) for c in range(chunks)}
    if kind == "all_to_all":
        return {(c * n // chunks, c): frozenset({c * n // chunks}) for c in range(chunks)}
    return {(i, i): frozenset({i}) for i in range(n)}


def wanted(kind: str, n: int, chunks: int) -> State:
    """What must be held at the end (members may hold more)."""
    full = frozenset(range(n))
    owner = [c * n // chunks for c in range(chunks)]
    every = [(i, c) for i in range(n) for c in range(chunks)]
    table: Mapping[str, State] = {
        "all_reduce": dict.fromkeys(every, full),
        "reduce_scatter": {(owner[c], c): full for c in range(chunks)},
        "reduce": {(0, c): full for c in range(chunks)},
        "all_gather": {(i, c): frozenset({owner[c]}) for i, c in every},
        "gather": {(0, c): frozenset({owner[c]}) for c in range(chunks)},
        "broadcast": {(i, c): frozenset({0}) for i, c in every},
        "scatter": {(owner[c], c): frozenset({0}) for c in range(chunks)},
        "all_to_all": {
            (c // max(1, chunks // n**2) % n, c): frozenset({owner[c]}) for c in range(chunks)
        },
        "send_recv": {((i + 1) % n, i): frozenset({i}) for i in range(n)},
    }
    return table[kind]


def play(rounds: Sequence[Round], state: State) -> State:
    """Play rounds on a state; `CollectiveError` names a transfer that sends nothing or doubles a contribution."""
    state = dict(state)
    for number, transfers in enumerate(rounds):
        before = dict(state)
        for t in transfers:
            held = before.get((t.src, t.chunk))
            if held is None:
                raise CollectiveError(f"round {number}: {t.src} sends chunk {t.chunk} it lacks")
            there = state.get((t.dst, t.chunk), frozenset()) if t.add else frozenset()
            if there & held:
                raise CollectiveError(f"round {number}: chunk {t.chunk} doubled at {t.dst}")
            state[t.dst, t.chunk] = there | held
    return state


def check(kind: str, n: int, rounds: Sequence[Round]) -> None:
    """Raise `CollectiveError` unless the rounds do ``kind`` on ``n`` members: nothing lost, nothing doubled."""
    chunks = num_chunks(kind, n, rounds)
    end = play(rounds, start(kind, n, chunks))
    for (member, chunk), contributors in wanted(kind, n, chunks).items():
        if end.get((member, chunk)) != contributors:
            held = sorted(end.get((member, chunk), frozenset()))
            raise CollectiveError(
                f"{kind}: member {member} ends with {held} in chunk {chunk}, not {sorted(contributors)}"
            )


def num_chunks(kind: str, n: int, rounds: Sequence[Round]) -> int:
    """Chunks the rounds cut the buffer into: a multiple of n (of n squared for all-to-all)."""
    most = max((t.chunk for r in rounds for t in r), default=0) + 1
    if kind in {"broadcast", "reduce"}:
        return max((round(1 / t.size) for r in rounds for t in r), default=1)
    unit = n * n if kind == "all_to_all" else n
    return -(-most // unit) * unit
