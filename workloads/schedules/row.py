"""Row: one rank's order being written; it numbers the microbatches of every kind and chunk."""

from workloads.schedules.action import Entry, Order, Token

_COVERS = {"F": ("F",), "B": ("B", "BW"), "W": ("W",), "BW": ("B", "BW", "W")}


class Row:
    """Entries so far, and the next microbatch of every (kind, chunk)."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._next: dict[tuple[str, int], int] = {}

    def next(self, kind: str, chunk: int) -> int:
        """Return the microbatch that ``add(kind, chunk)`` would write."""
        return self._next.get((kind, chunk), 0)

    def add(self, *actions: tuple[str, int]) -> None:
        """Write one entry of the next microbatch of each (kind, chunk); two of them overlap."""
        entry = []
        for kind, chunk in actions:
            microbatch = self.next(kind, chunk)
            for covered in _COVERS[kind]:
                self._next[covered, chunk] = microbatch + 1
            entry.append(Token(kind, chunk, microbatch))
        self._entries.append(tuple(entry))

    def order(self) -> Order:
        """Return what was written."""
        return tuple(self._entries)
