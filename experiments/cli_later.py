"""Commands that have their place but no work yet: each says so and exits 2."""

from typing import Annotated

import typer

from experiments.cli_output import AsJson, Overrides
from sim.errors import InputError


def plan(
    run: Annotated[str, typer.Argument(help="Run file or run preset.")],
    top: Annotated[int, typer.Option(help="How many plans to show.")] = 10,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Search plans for the model and cluster of a run (not yet available)."""
    raise InputError(
        "plan is not yet available; try plans by hand: simulate RUN --set plan.tp=..., or compare"
    )


def goodput(
    run: Annotated[str, typer.Argument(help="Run file or run preset.")],
    days: Annotated[float, typer.Option(help="Length of the training run.")] = 30.0,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Play failures, checkpoints and restarts (not yet available)."""
    raise InputError(
        "goodput is not yet available; simulate RUN gives the step time it starts from"
    )
