"""Reader: one config.json read key by key, in the spellings and with the defaults of its dialect."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from sim.errors import PlanError
from sim.units import TERA
from workloads.hf_dialects import SPELLINGS, Dialect

Config = Mapping[str, Any]
LARGEST = TERA
"""Above it a number is a slip of the pen."""


@dataclass(slots=True)
class Reader:
    """One config being read: its text part, its dialect, and what was assumed so far."""

    config: Config
    dialect: Dialect
    name: str
    known: bool = True
    assumptions: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def get(self, what: str) -> Any:
        """Return the first spelling of ``what`` that is present and not null, else the dialect's default, else None."""
        spellings = SPELLINGS.get(what, (what,))
        self.used.update(spellings)
        for key in spellings:
            value = self.config.get(key)
            if value is not None:
                return value
        default = self.dialect.defaults.get(what)
        if default is None or any(key in self.config for key in spellings):
            return None
        self.assume(f"{spellings[0]} is absent: {default}, the default of this model_type")
        return default

    def count(self, what: str, default: int = 0, *, least: int = 0) -> int:
        """Return a whole number, or ``default`` where no spelling is present. Raises `PlanError`."""
        value = self.get(what)
        if value is None:
            return default
        if isinstance(value, list) and value and all(part == value[0] for part in value):
            value = value[0]
        if isinstance(value, list):
            raise PlanError(
                f"model {self.name!r}: {what}={value[:6]} differs by layer, which a model of "
                "equal layers cannot represent; give one number"
            )
        if not finite(value) or value != int(value):
            raise PlanError(
                f"model {self.name!r}: {what}={value!r} must be a whole number; correct it in the file"
            )
        if value > LARGEST:
            raise PlanError(
                f"model {self.name!r}: {what}={value} must be at most {LARGEST:g}; correct it in the file"
            )
        if value < least:
            raise PlanError(
                f"model {self.name!r}: {what}={value} must be {least} or more; correct it in the file"
            )
        return int(value)

    def need(self, what: str) -> int:
        """Return a number that nothing else implies. Raises `PlanError` naming the key."""
        value = self.count(what, least=1)
        if value < 1:
            spelled = ", ".join(SPELLINGS.get(what, (what,)))
            raise PlanError(
                f"model {self.name!r}: config.json has no usable {what} (looked for {spelled}), and "
                "nothing else implies it; add it to the file"
            )
        return value

    def assume(self, text: str) -> None:
        """Note something the file does not state, once."""
        if text not in self.assumptions:
            self.assumptions.append(text)

    def switch(self, what: str) -> bool | None:
        """Return a switch, None where it is absent. Raises `PlanError` for anything but true and false."""
        value = self.get(what)
        if value is not None and not isinstance(value, bool):
            raise PlanError(
                f"model {self.name!r}: {what}={value!r} must be true or false; correct it in the file"
            )
        return value

    def flag(self, what: str, default: bool) -> bool:
        """Return a switch, ``default`` where it is absent."""
        value = self.switch(what)
        return default if value is None else value

    def listed(self, what: str) -> list[Any]:
        """Return a list, empty where it is absent. Raises `PlanError` for anything else."""
        value = self.get(what)
        if value is not None and not isinstance(value, list):
            raise PlanError(
                f"model {self.name!r}: {what}={value!r} must be a list; correct it in the file"
            )
        return value or []


def finite(value: Any) -> bool:
    """Return whether a value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
