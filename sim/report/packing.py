"""Packing: the spans of a timeline as columns for the viewer, compressed, in text that a page can hold.

Columns of all rows lie one after another: start (float64, s), duration (float32, s), op and action (uint32, indices
of tables). A row is a slice of them and another of its idle intervals with their causes; a row that computes has a
third, whole actions, for views from afar.
"""

import base64
import gzip
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.facts import Plans, op_facts, plans_of
from sim.lanes import action_hue, axis_of, communication_hue
from sim.palette import HOST_HUE, OTHER_AXIS, PHASES, axis_hue
from sim.program import Action, Compute, Merged, Op
from sim.timeline import HOST, Cause, Span, StreamRecord, Timeline

NEAR = 5e-5
"""Ops of an action this share of the step apart are one bar of the far view."""
Slice = tuple[int, int]


class Packing:
    """Columns and tables that grow row by row; `data` is what the page embeds."""

    def __init__(self) -> None:
        self.starts: list[np.ndarray] = []
        self.durations: list[np.ndarray] = []
        self.ops: list[np.ndarray] = []
        self.actions: list[np.ndarray] = []
        self.length = 0
        self.op_table: list[dict[str, Any]] = []
        self.op_index: dict[object, int] = {}
        self.action_table: list[Action] = []
        self.action_index: dict[Action, int] = {}
        self.rows: list[dict[str, Any]] = []

    def add(self, run: str, timeline: Timeline, rank_classes: Sequence[int]) -> None:
        """Add a row for every stream of rank classes of a timeline."""
        plans, folding = plans_of(timeline), timeline.folding
        for rank_class in rank_classes:
            rank, size = int(folding.representative[rank_class]), int(folding.size[rank_class])
            group = {"run": run, "place": timeline.place(rank_class), "rank": rank, "size": size}
            streams = sorted(
                timeline.streams_of[rank_class], key=lambda s: (not s.computes, s.name)
            )
            for stream in streams:
                self._add_row(timeline, stream, group, plans)

    def _add_row(
        self, timeline: Timeline, stream: StreamRecord, group: dict[str, Any], plans: Plans
    ) -> None:
        spans = [s for s in timeline.spans(stream.rank_class, stream.name) if s.end > s.start]
        row = {**group, "name": stream.name, "computes": stream.computes}
        row["spans"] = self._append(
            [
                (
                    s.start,
                    s.end,
                    self._op(timeline, stream.rank_class, s.op, plans),
                    self._action(s.action),
                )
                for s in spans
            ]
        )
        if stream.computes:
            row["far"] = self._append(self._far(timeline, spans))
        row["idle"] = self._append(self._idle(timeline, stream))
        self.rows.append(row)

    def _append(self, rows: list[tuple[float, float, int, int]]) -> Slice:
        start, end, op, action = np.array(rows, dtype=np.float64).reshape(-1, 4).T
        self.starts.append(start)
        self.durations.append((end - start).astype(np.float32))
        self.ops.append(op.astype(np.uint32))
        self.actions.append(action.astype(np.uint32))
        first, self.length = self.length, self.length + len(rows)
        return first, self.length

    def _op(self, timeline: Timeline, rank_class: int, op: Op, plans: Plans) -> int:
        key = (id(timeline), rank_class, id(op))
        if key not in self.op_index:
            facts = op_facts(timeline, plans, rank_class, op)
            entry = {"name": getattr(op, "name", ""), **_hue_of(op), "facts": facts}
            self.op_index[key] = self._tabled(entry)
        return self.op_index[key]

    def _tabled(self, entry: dict[str, Any]) -> int:
        """Index of an entry of the table of ops; equal ones are kept once."""
        text = repr(entry)
        if text not in self.op_index:
            self.op_index[text] = len(self.op_table)
            self.op_table.append(entry)
        return self.op_index[text]

    def _action(self, action: Action) -> int:
        if action not in self.action_index:
            self.action_index[action] = len(self.action_table)
            self.action_table.append(action)
        return self.action_index[action]

    def _far(
        self, timeline: Timeline, spans: Sequence[Span]
    ) -> list[tuple[float, float, int, int]]:
        """Return bars of whole actions."""
        near = timeline.step_time * NEAR
        bars: list[tuple[float, float, int, int]] = []
        before: tuple[Action, str] | None = None
        for span in spans:
            phase = getattr(span.op, "phase", "") if span.action.kind == "F&B" else ""
            if before == (span.action, phase) and span.start - bars[-1][1] <= near:
                bars[-1] = (bars[-1][0], span.end, *bars[-1][2:])
                continue
            before = (span.action, phase)
            colour, label = action_hue(span, 1)
            op = self._tabled({"name": label, "colour": colour, "shaded": True, "facts": {}})
            bars.append((span.start, span.end, op, self._action(span.action)))
        return bars

    def _idle(
        self, timeline: Timeline, stream: StreamRecord
    ) -> list[tuple[float, float, int, int]]:
        """Return idle intervals of a stream, each with the op that names its cause."""
        found = []
        for op, action, posted, start, _ in stream.spans:
            if start > posted:
                text = f"waits until the other ranks of {_name(op)} are there"
                found.append((posted, start, self._cause(op, text), self._action(action)))
        for start, end, cause in stream.gaps:
            if end > start:
                found.append((start, end, *self._gap(timeline, stream, start, end, cause)))
        last = max((span[4] for span in stream.spans), default=0.0)
        if timeline.step_time > last:
            text = "has nothing left to do: the step ends with the slowest rank"
            if not stream.computes:
                text = f"nothing is posted {'any more' if stream.spans else 'on this stream'}"
            found.append(
                (last, timeline.step_time, self._cause(None, text), self._action(Action("end")))
            )
        return sorted(found)

    def _gap(
        self, timeline: Timeline, stream: StreamRecord, start: float, end: float, cause: Cause
    ) -> tuple[int, int]:
        if cause == HOST:
            entry = {
                "name": "idle",
                "colour": HOST_HUE.colour,
                "facts": {"idle": "waits for the host to launch"},
            }
            return self._tabled(entry), self._action(Action("launch"))
        awaited = timeline.streams[cause[0]]
        op, action, _, begun, _ = awaited.spans[cause[1]]
        late = max(min(begun, end) - start, 0.0)
        computes = isinstance(op, Compute | Merged)
        what, why = (
            ("runs", "its stream is not so far")
            if computes
            else ("is in flight", "its peer is late")
        )
        text = f"waits for {_name(op)} on stream {awaited.name}"
        if not stream.computes:
            text = f"nothing is posted: the next transfer {text}"
        share = late / (end - start)
        if share > 0.01:
            text += f", which has not begun for {share:.0%} of it ({why})"
        if share < 0.99:
            text += f", which {what} for {1 - share:.0%} of it"
        return self._cause(op, text), self._action(action)

    def _cause(self, op: Op | None, text: str) -> int:
        axis = axis_of(op) if op is not None else ""
        colour = axis_hue(axis).colour if axis else OTHER_AXIS.colour
        return self._tabled({"name": "idle", "colour": colour, "facts": {"idle": text}})

    def data(self) -> dict[str, Any]:
        """Return tables, rows and, in base64, the compressed columns in the order of the module's text."""
        columns = [
            (self.starts, "<f8"),
            (self.durations, "<f4"),
            (self.ops, "<u4"),
            (self.actions, "<u4"),
        ]
        blob = b"".join(
            np.concatenate(parts or [np.zeros(0)]).astype(kind).tobytes() for parts, kind in columns
        )
        packed = gzip.compress(blob, compresslevel=6, mtime=0)
        return {
            "length": self.length,
            "rows": self.rows,
            "ops": self.op_table,
            "actions": self.action_table,
            "columns": base64.b64encode(packed).decode("ascii"),
        }


def _name(op: Op) -> str:
    """Name of an op; of ops played as one, the last's."""
    parts: Sequence[Op] = getattr(op, "ops", ())
    named = [part for part in parts if hasattr(part, "name")]
    return str(getattr(named[-1] if named else op, "name", "an op"))


def _hue_of(op: Op) -> dict[str, Any]:
    if isinstance(op, Compute):
        hue = PHASES.get(op.phase, PHASES["F"])
        return {"colour": hue.colour, "label": hue.label, "shaded": True}
    colour, label = communication_hue(op)
    return {"colour": colour, "label": label}
