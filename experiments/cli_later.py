"""A command that has its place but no work yet: it says so and exits 2."""

from typing import Annotated

import typer

from experiments.cli_output import AsJson, Overrides
from sim.errors import InputError


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
