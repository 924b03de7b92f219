"""``topology``: a cluster's counts, bisection and power, and a drawing of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli_output import AsJson, emit, table, working
from experiments.cli_simulate import check_picture

if TYPE_CHECKING:
    from rich.console import RenderableType


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
    from experiments.machine import build_machine
    from experiments.runfile import cluster_parameters

    check_picture(plot)
    with working(f"building {name}"):
        machine = build_machine(name, devices, cluster_parameters(overrides or ()))
        answer: dict[str, Any] = topology_command.describe(machine)
        if plot:
            topology_command.draw(machine, plot)
    emit(answer, as_json, lambda: _view(answer))


def _view(answer: Mapping[str, Any]) -> list["RenderableType"]:
    """Return a cluster's figures, its links by kind, and what was assumed."""
    single = [(key, value) for key, value in answer.items() if not isinstance(value, list | dict)]
    single += list(answer["vertices"].items()) + list(answer["facts"].items())
    links = answer["links"]
    parts = [table(single, ("figure", "value"))]
    if links:
        parts.append(table([list(link.values()) for link in links], list(links[0])))
    if answer["assumptions"]:
        parts.append(table([[text] for text in answer["assumptions"]], ["assumptions"]))
    return parts
