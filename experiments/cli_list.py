"""``list``: what ships, one line a thing."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from experiments.cli_output import AsJson, cell, emit, table
from sim.errors import InputError, unknown

Row = Mapping[str, Any]


def models() -> list[Row]:
    """Return the models with their parameter counts."""
    from workloads.counts import num_active_params, num_params
    from workloads.models import MODELS

    return [
        {
            "name": model.name,
            "num_params": num_params(model),
            "num_active_params": num_active_params(model),
            "num_layers": model.num_layers,
            "hidden_size": model.hidden_size,
        }
        for model in MODELS.values()
    ]


def runs() -> list[Row]:
    """Return the run presets with model, cluster and source."""
    from experiments.presets import preset_table, run_presets

    rows: list[Row] = []
    for name in run_presets():
        stated = preset_table(name)
        model, cluster = stated["model"], stated["cluster"]
        rows.append(
            {
                "name": name,
                "model": model.get("preset", model.get("name", "")),
                "cluster": cluster["preset"],
                "num_devices": cluster["num_devices"],
                "source": stated.get("source", ""),
            }
        )
    return rows


def clusters() -> list[Row]:
    """Return the cluster presets with their full size and device."""
    from topologies import CLUSTERS

    return [
        {
            "name": name,
            "num_devices": preset.num_devices,
            "device": preset.device,
            "source": preset.source,
        }
        for name, preset in CLUSTERS.items()
    ]


def devices() -> list[Row]:
    """Return the devices with peaks in FLOP/s, memory in bytes and its bandwidth in bytes/s."""
    from topologies.devices import DEVICES, device

    return [
        {
            "name": name,
            "vendor": device(name).vendor,
            "peak_flops_per_s": dict(device(name).peak),
            "memory_bytes": device(name).memory_bytes,
            "memory_bandwidth": device(name).memory_bandwidth,
        }
        for name in DEVICES
    ]


def schedules() -> list[Row]:
    """Return the pipeline schedules with their rule."""
    from workloads.schedules import SCHEDULES

    return [
        {"name": name, "split_backward": kind.split_backward, "rule": kind.rule_text}
        for name, kind in SCHEDULES.items()
    ]


def collectives() -> list[Row]:
    """Return the collective kinds with the algorithms that can run each."""
    from sim.collectives import ALGORITHMS, KINDS

    return [
        {"name": kind, "algorithms": [a.name for a in ALGORITHMS.values() if kind in a.kinds]}
        for kind in KINDS
    ]


def studies() -> list[Row]:
    """Return the studies with the question each asks."""
    from experiments.cli_study import questions

    return [{"name": name, "question": question} for name, question in questions().items()]


LISTS: dict[str, Callable[[], list[Row]]] = {
    "models": models,
    "runs": runs,
    "clusters": clusters,
    "devices": devices,
    "schedules": schedules,
    "collectives": collectives,
    "studies": studies,
}


def list_things(
    what: Annotated[str, typer.Argument(metavar="|".join(LISTS), help="What to list.")],
    as_json: AsJson = False,
) -> None:
    """List what ships: models, runs, clusters, devices, schedules, collectives or studies."""
    if what not in LISTS:
        raise InputError(unknown("list", what, LISTS))
    rows = LISTS[what]()
    columns = list(dict.fromkeys(key for row in rows for key in row))
    emit(
        {what: rows},
        as_json,
        lambda: [table([[_shown(row.get(c)) for c in columns] for row in rows], columns)],
    )


def _shown(value: object) -> object:
    """Return a value as a table cell shows it: lists and tables in a line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item:.3g}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(cell, value))
    return value
