"""Lower: model and plan become a program: for every place in the pipeline, streams of ops.

A schedule gives each rank's order of actions; a chunk gives the ops of an action; this file inserts the transfers
between stages (once, for every schedule), the gathers and reductions of data parallelism, and the optimizer's step.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sim.program import Action, Op, Program, Recv, Script, Segment, Send, Signal, Sync, Wait
from workloads.chunk import CREDIT, Chunk, Known, Variant
from workloads.context_places import context_groups, packed, script_places
from workloads.data_parallel import (
    Sharding,
    gather_segment,
    held_states,
    optimizer_segment,
    reduce_segment,
)
from workloads.expert_loads import dropped
from workloads.layers import Sizes
from workloads.layers.part import COMPUTE, Lanes
from workloads.layout import StageContent, stage_contents
from workloads.mesh import groups, neighbours
from workloads.model import Model
from workloads.on_use import gathers_on_use
from workloads.packing import DRAWS
from workloads.pair import interleave, renamed, second
from workloads.pipeline import one_chunk, pipeline
from workloads.plan import Plan
from workloads.plan_check import check
from workloads.routing import parse_routing
from workloads.schedules import Placement, Token, find_schedule
from workloads.step_flops import model_flops

NEXT, PREVIOUS = "pp.next", "pp.prev"
"""Channels between pipeline ranks: to the rank after, to the rank before (around the ring)."""


def lower(model: Model, plan: Plan) -> Program:
    """Return the program of one training step; raise `PlanError` if the plan cannot run the model."""
    check(plan, model)
    sizes, sharding = Sizes(model, plan), Sharding(plan)
    placement, orders = pipeline(model, plan)
    contents, assumed = stage_contents(model, plan, placement.num_stages)
    known: dict[tuple[StageContent, int, int], Chunk] = {}
    parts: Known = {}
    places, script_of_rank = script_places(model, plan)
    scripts = []
    for place in places:
        rank, here = place[0], replace(sizes, context_place=place[2])
        own = []
        for content in (contents[placement.stage(rank, c)] for c in range(placement.chunks)):
            made = Chunk(here, content, place[1], known=parts)
            own.append(known.setdefault((content, *place[1:]), made))
        scripts.append(_Rank(here, sharding, placement, rank, own).script(orders[rank]))
    return Program(
        scripts=tuple(scripts),
        script_of_rank=script_of_rank,
        groups=_groups(sizes, sharding),
        peers={NEXT: neighbours(plan, 1), PREVIOUS: neighbours(plan, -1)} if plan.pp > 1 else {},
        flops=model_flops(model, plan),
        tokens=float(plan.global_batch) * plan.seq_len,
        dtype=plan.dtype,
        assumptions=(*assumed, *one_chunk(plan), *packed(plan), *dropped(model, plan)),
        reserved_units=plan.comm_sms,
        libraries=plan.libraries,
    )


def _groups(sizes: Sizes, sharding: Sharding) -> dict[str, np.ndarray]:
    plan = sizes.plan
    found = {"tp": groups(plan, ("tp",)), "cp": groups(plan, ("cp",)), **sharding.groups()}
    if plan.tp * plan.pp > 1:
        found["model"] = groups(plan, ("tp", "pp"))
    if _tied_apart(sizes):
        found["embedding"] = groups(plan, ("pp",))[:, [0, -1]]
    found |= context_groups(plan, found["cp"])
    found = {axis: members for axis, members in found.items() if members.shape[1] > 1}
    if plan.offload:
        found["host"] = np.arange(plan.num_devices)[:, None]
    return found


def _tied_apart(sizes: Sizes) -> bool:
    """Whether a tied embedding has two copies, on a pipeline's first and last rank (on a V these are one)."""
    looped = find_schedule(sizes.plan.schedule).placement_kind == "loop"
    return sizes.model.tied_embeddings and sizes.plan.pp > 1 and looped


@dataclass(frozen=True, slots=True)
class _Turn:
    """One action of a rank: what surrounds it, its stage, where on the ring it comes from and goes to, its likeness."""

    token: Token
    variant: Variant
    stage: int
    before: int | None
    after: int | None
    routed: int = 0

    @property
    def action(self) -> Action:
        return Action(self.token.kind, self.stage, self.token.chunk, self.token.microbatch)

    @property
    def key(self) -> tuple[object, ...]:
        return (
            self.token.kind,
            self.token.chunk,
            self.variant,
            self.before,
            self.after,
            self.routed,
        )


@dataclass
class _Rank:
    """Lowers the order of one place in the pipeline."""

    sizes: Sizes
    sharding: Sharding
    placement: Placement
    rank: int
    chunks: list[Chunk]
    streams: dict[str, list[Segment]] = field(default_factory=dict)
    routed: dict[tuple[int, int], Chunk] = field(default_factory=dict)
    bodies: dict[tuple[object, ...], dict[str, tuple[Op, ...]]] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        return self.sizes.plan

    @cached_property
    def parallel(self) -> bool:
        """Whether data parallelism communicates at all."""
        return self.sharding.degree > 1 or self.sharding.expert_degree > 1

    @cached_property
    def rerouted(self) -> int:
        """How many microbatches go to experts in their own way or hold their own documents (1: all are alike)."""
        if parse_routing(self.plan.routing).by_microbatch:
            return self.plan.num_microbatches * self.placement.num_directions
        return DRAWS if self.plan.draws_documents else 1

    @cached_property
    def gathers(self) -> str:
        """When parameters are gathered: every pass, once (first forward of a chunk), or never here."""
        plan = self.plan
        if not self.parallel:
            return "never"
        if plan.zero == 3:
            return "passes" if plan.reshard else "once"
        return "once" if plan.zero in (1, 2) and plan.switch("overlap_param_gather") else "never"

    @cached_property
    def early(self) -> bool:
        """Whether gradients are reduced while backward still runs; sharded ones have no other place to go."""
        return self.parallel and (self.plan.switch("overlap_grad_reduce") or self.plan.zero >= 2)

    def script(self, order: tuple[tuple[Token, ...], ...]) -> Script:
        """Return what this rank does."""
        tokens = [token for entry in order for token in entry]
        final = {t.chunk: i for i, t in enumerate(tokens) if t.kind in ("W", "BW")}
        first = {t.chunk: i for i, t in reversed(list(enumerate(tokens))) if t.kind == "F"}
        reductions = Counter[int]()
        index = 0
        for entry in order:
            turns = []
            for token in entry:
                last = index == final[token.chunk]
                reduce = (
                    self.early and token.kind in ("W", "BW") and (last or self.plan.reduces_each)
                )
                variant = Variant(
                    gather=(self.gathers == "passes" and token.kind != "W")
                    or (self.gathers == "once" and index == first[token.chunk]),
                    release=self.gathers == "passes",
                    reduce=reduce,
                )
                turns.append(self._turn(token, variant))
                reductions[token.chunk] += len(self.chunks[token.chunk].buckets) if reduce else 0
                index += 1
            self._act(turns)
        self._end(sum(reductions.values()))
        states = held_states(self.sizes, self.chunks, self.sharding)
        if self.plan.zero == 3 and not self.plan.reshard and self.parallel:
            states["gathered"] = sum(
                (u.dense_weights + u.expert_weights) * self.sizes.value
                for c in self.chunks
                for u in c.units
            )
        return Script(
            streams={name: tuple(segments) for name, segments in self.streams.items()},
            semaphores=dict.fromkeys((CREDIT, second(CREDIT)), self._credits),
            memory=states,
            label=f"pipeline rank {self.rank}",
            place=self.rank,
        )

    @property
    def _credits(self) -> int:
        """Units whose parameters may be gathered at once."""
        if self.sizes.software.scan or gathers_on_use(self.plan):
            return 1
        return self.plan.prefetch + 1

    def _put(self, stream: str, segment: Segment) -> None:
        self.streams.setdefault(stream, []).append(segment)

    def _turn(self, token: Token, variant: Variant) -> "_Turn":
        stage = self.placement.stage(self.rank, token.chunk)
        direction = self.placement.direction(token.chunk)
        routed = (token.microbatch * self.placement.num_directions + direction) % self.rerouted
        return _Turn(token, variant, stage, *self._neighbours(token), routed)

    def _act(self, turns: list["_Turn"]) -> None:
        """Put the segments of one entry of the order: an action, or a pair side by side."""
        for turn in turns:
            if turn.before is not None:
                self._receive(turn.token, turn.stage, turn.before)
        if len(turns) == 1:
            for stream, ops in self._body(turns[0]).items():
                self._put(stream, Segment(turns[0].action, ops))
        else:
            self._pair(*turns)
        for number, turn in enumerate(turns):
            if turn.after is not None:
                self._send(turn.token, turn.stage, turn.after)
            self._communicate(turn, second_half=number == 1)

    def _communicate(self, turn: "_Turn", *, second_half: bool) -> None:
        """Put what data parallelism does beside an action."""
        token, action, chunk = turn.token, turn.action, self.chunks[turn.token.chunk]
        if turn.variant.gather:
            stream = second("gather") if second_half else "gather"
            key = (stream, token.kind, token.chunk)
            if key not in self.bodies:
                ops = gather_segment(
                    self.sizes,
                    self.sharding,
                    chunk,
                    action,
                    backward=token.kind != "F",
                    keep=self.gathers == "once",
                ).ops
                self.bodies[key] = {stream: renamed(ops) if second_half else ops}
            self._put(stream, Segment(action, self.bodies[key][stream]))
        if turn.variant.reduce:
            reduced = ("reduce", token.chunk)
            if reduced not in self.bodies:
                segment = reduce_segment(self.sizes, self.sharding, chunk, action)
                self.bodies[reduced] = {"reduce": segment.ops}
            self._put("reduce", Segment(action, self.bodies[reduced]["reduce"]))

    def _neighbours(self, token: Token) -> tuple[int | None, int | None]:
        """Offsets on the ring of the rank an action takes its input from and gives its output to (None: itself)."""
        backward = token.kind in ("B", "BW")
        if token.kind == "W":
            return None, None
        source = self.placement.previous(self.rank, token.chunk)
        target = self.placement.next(self.rank, token.chunk)
        if backward:
            source, target = target, source
        return self._offset(source), self._offset(target)

    def _offset(self, place: tuple[int, int] | None) -> int | None:
        if place is None or place[0] == self.rank:
            return None
        return (place[0] - self.rank) % self.plan.pp

    def _channel(self, offset: int, *, sending: bool) -> str:
        """Name the channel: a receive is named as its sender names it (of two ranks each is the other's next)."""
        if self.plan.pp == 2:
            return NEXT
        return NEXT if (offset == 1) == sending else PREVIOUS

    def _body(self, turn: "_Turn") -> dict[str, tuple[Op, ...]]:
        """Return the ops of an action with its waits and signals; the same action gets the same tuples."""
        if turn.key not in self.bodies:
            body = dict(self._passes(turn))
            body[COMPUTE] = (*self._enter(turn), *body.get(COMPUTE, ()), *self._leave(turn))
            self.bodies[turn.key] = body
        return self.bodies[turn.key]

    def _pair(self, near: "_Turn", beside: "_Turn") -> None:
        """Put an overlapped pair: it starts when both inputs are there and ends when both are done."""
        key = ("pair", near.key, beside.key)
        if key not in self.bodies:
            halves = even = (self._passes(near), self._passes(beside))
            if self.plan.uneven:
                even = (self._passes(near, alike=True), self._passes(beside, alike=True))
            body = interleave(*halves, even)
            body[COMPUTE] = (
                *self._enter(near),
                *self._enter(beside),
                *body[COMPUTE],
                *self._leave(near),
                *self._leave(beside),
            )
            self.bodies[key] = body
        action = near.action._replace(kind="F&B")
        for stream, ops in self.bodies[key].items():
            self._put(stream, Segment(action, ops))

    def _passes(self, turn: "_Turn", *, alike: bool = False) -> Lanes:
        """Return the ops of an action; ``alike``: as every rank would have them, were their work the same."""
        chunk = self.chunks[turn.token.chunk]
        likeness = -1 if alike else turn.routed
        if likeness and self.plan.uneven:
            known = (turn.token.chunk, likeness)
            if known not in self.routed:
                self.routed[known] = chunk.alike if alike else replace(chunk, microbatch=likeness)
            chunk = self.routed[known]
        passes = {
            "F": chunk.forward,
            "BW": chunk.backward,
            "B": chunk.input_gradient,
            "W": chunk.weight_gradient,
        }
        return passes[turn.token.kind](turn.variant)

    def _enter(self, turn: "_Turn") -> tuple[Op, ...]:
        """Wait for the input of an action, where another rank sends it."""
        if turn.before is None:
            return ()
        wait = Wait((f"came.{self._way(turn.token)}",))
        return (wait, Sync()) if self.sizes.software.p2p_sync else (wait,)

    def _leave(self, turn: "_Turn") -> tuple[Op, ...]:
        """Hand over the output of an action, where another rank needs it."""
        if turn.after is None:
            return ()
        way = self._way(turn.token)
        sent: tuple[Op, ...] = () if self.plan.switch("overlap_p2p") else (Wait((f"sent.{way}",)),)
        return (Signal((f"done.{way}",)), *sent)

    def _way(self, token: Token) -> str:
        return f"{'F' if token.kind == 'F' else 'B'}{token.chunk}"

    @cached_property
    def _message_bytes(self) -> float:
        """Bytes of a boundary tensor a tp rank sends: its slice, where disjoint or cut by the software."""
        sizes = self.sizes
        cut = self.plan.sequence_parallel or self.plan.switch("scatter_gather")
        return sizes.hidden_bytes / self.plan.tp if cut else sizes.hidden_bytes

    def _message_action(self, token: Token, stage: int) -> Action:
        kind = "F" if token.kind == "F" else "B"
        return Action(kind, stage, self.placement.direction(token.chunk), token.microbatch)

    def _receive(self, token: Token, stage: int, offset: int) -> None:
        channel = self._channel(offset, sending=False)
        way = self._way(token)
        key = ("recv", way, channel)
        if key not in self.bodies:
            op = Recv(
                f"recv.{way[0]}", channel, self._message_bytes, way[0], signals=(f"came.{way}",)
            )
            self.bodies[key] = {"recv": (op,)}
        self._put(
            f"recv.{way[0]}", Segment(self._message_action(token, stage), self.bodies[key]["recv"])
        )

    def _send(self, token: Token, stage: int, offset: int) -> None:
        channel = self._channel(offset, sending=True)
        way = self._way(token)
        target = stage + 1 if way[0] == "F" else stage - 1
        key = ("send", way, channel)
        if key not in self.bodies:
            signals = () if self.plan.switch("overlap_p2p") else (f"sent.{way}",)
            done = (f"done.{way}",)
            op = Send(
                f"send.{way[0]}", channel, self._message_bytes, way[0], waits=done, signals=signals
            )
            self.bodies[key] = {"send": (op,)}
        self._put(
            f"send.{way[0]}", Segment(self._message_action(token, target), self.bodies[key]["send"])
        )

    def _end(self, num_reductions: int) -> None:
        late = self.parallel and not self.early
        tied = _tied_apart(self.sizes) and self.rank in (0, self.plan.pp - 1)
        self._put(
            COMPUTE,
            optimizer_segment(
                self.sizes,
                self.sharding,
                self.chunks,
                late=late,
                num_reductions=num_reductions,
                tied=tied,
            ),
        )
