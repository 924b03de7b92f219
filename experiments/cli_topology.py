"""``topology``: a cluster's counts, bisection and power, and a drawing of it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli_output import AsJson, emit, table, working
from experiments.cli_simulate import check_writable


def topology(
    name: Annotated[str, typer.Argument(help="Cluster preset; see list clusters.")],
    devices: Annotated[int | None, typer.Option(help="How many devices of it.")] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A parameter of the family, e.g. oversubscription=7."
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="F.png", help="Draw it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Describe a cluster: devices, hosts, switches, links, bisection, power."""
    from experiments import topology_command
    from experiments.runfile import cluster_parameters
    from topologies import cluster as build

    check_writable(plot)
    with working(f"building {name}"):
        machine = build(name, devices, **cluster_parameters(overrides or ()))
        answer: dict[str, Any] = topology_command.describe(machine)
        if plot:
            topology_command.draw(machine, plot)
    emit(answer, as_json, lambda: [table(list(answer.items()), ("figure", "value"))])
