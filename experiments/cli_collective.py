"""``collective``: time, algbw and busbw of one collective, or the table nccl-tests prints."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli_output import AsJson, emit, table, working
from sim.errors import InputError
from sim.units import GB, us

if TYPE_CHECKING:
    from rich.console import RenderableType


def collective(
    kind: Annotated[str, typer.Argument(help="all_reduce, all_gather, ...; see list collectives.")],
    cluster: Annotated[str, typer.Option(help="Cluster preset; see list clusters.")],
    devices: Annotated[int | None, typer.Option(help="How many devices take part.")] = None,
    nbytes: Annotated[
        str | None, typer.Option("--bytes", metavar="SIZE", help="Size as nccl-tests counts it.")
    ] = None,
    algorithm: Annotated[str, typer.Option(help="ring, hierarchical, ...; auto chooses.")] = "auto",
    sweep: Annotated[bool, typer.Option("--sweep", help="All sizes from 8 B to 16 GiB.")] = False,
    fidelity: Annotated[
        str, typer.Option(help="activity: one activity; rounds: every transfer is a flow.")
    ] = "activity",
    as_json: AsJson = False,
) -> None:
    """Time one collective on a cluster."""
    from experiments import collective_command
    from experiments.machine import build_machine
    from experiments.quantity import parse_quantity

    if sweep == (nbytes is not None):
        raise InputError("give either --bytes SIZE or --sweep")
    size = parse_quantity(nbytes, "--bytes") if nbytes is not None else 0.0
    if nbytes is not None and not size > 0:
        raise InputError(f"--bytes {nbytes} must be more than 0")
    with working(f"{kind} on {cluster}"):
        machine = build_machine(cluster, devices)
        if sweep:
            rows: list[dict[str, Any]] = collective_command.sweep(
                kind, machine, algorithm, fidelity=fidelity
            )
        else:
            answer: dict[str, Any] = collective_command.collective(
                kind, machine, size, algorithm, fidelity
            )
    if sweep:
        emit(
            {"kind": kind, "cluster": cluster, "num_devices": machine.num_devices, "rows": rows},
            as_json,
            lambda: [collective_command.nccl_table(rows)],
        )
    else:
        emit(answer, as_json, lambda: [_view(answer)])


def _view(answer: Mapping[str, Any]) -> "RenderableType":
    """Return one collective's figures, in the units people compare."""
    rows = (
        ("time", f"{answer['time_s'] / us:,.2f} us"),
        ("of it latency", f"{answer['latency_s'] / us:,.2f} us"),
        ("algbw", f"{answer['algbw_Bps'] / GB:,.2f} GB/s"),
        ("busbw", f"{answer['busbw_Bps'] / GB:,.2f} GB/s"),
        ("algorithm", answer["algorithm"]),
        ("protocol", answer["protocol"]),
        ("bottleneck", answer["bottleneck"]),
    )
    title = (
        f"{answer['kind']} of {answer['nbytes']:,.0f} bytes on {answer['num_devices']:,} devices"
    )
    return table(rows, ("figure", "value"), title)
