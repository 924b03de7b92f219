"""``plan``: the fastest plans for the model and cluster of a run, at its global batch."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli_output import AsJson, Overrides, emit, table, working
from sim.errors import InputError
from sim.units import GiB

if TYPE_CHECKING:
    from rich.console import RenderableType

KEYS = ("tp", "cp", "ep", "pp", "dp", "schedule", "chunks", "microbatch", "zero", "recompute")


def plan(
    run: Annotated[str, typer.Argument(help="Run file or run preset.")],
    top: Annotated[int, typer.Option(help="How many plans to show.")] = 10,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Search plans for the model and cluster of a run, at its global batch."""
    if top < 1:
        raise InputError(f"--top {top} must be at least 1")
    from experiments.runfile import load_run

    config = load_run(run, overrides or ())
    from experiments.plan_search import search

    with working(
        f"searching plans for {config.model.name} on {config.cluster.num_devices:,} devices"
    ):
        answer = search(config, top)
    emit(answer, as_json, lambda: _view(answer))


def _view(answer: Mapping[str, Any]) -> list["RenderableType"]:
    """Return the plans, best first, and how they were found."""
    rows = [
        (place, *(found["plan"][key] for key in KEYS), found["step_time_s"], f"{found['mfu']:.1%}",
         f"{found['bubble_fraction']:.1%}", found["peak_memory_bytes"] / GiB)
        for place, found in enumerate(answer["plans"], start=1)
    ]  # fmt: skip
    columns = ("", *KEYS, "step s", "MFU", "bubble", "live GiB")
    facts = [
        (f"{answer['num_considered']:,} plans, {answer['num_fitting']:,} may fit, {answer['num_simulated']:,} replayed "
         f"in {answer['wall_s']:.0f} s",),
        *((text,) for text in answer["assumptions"]),
    ]  # fmt: skip
    return [table(rows, columns), table(facts, ("how these were found",))]
