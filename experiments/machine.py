"""Machine: a cluster preset with what a person asked of it, wrong values named as they were written."""

from collections.abc import Mapping

from sim.cluster import Cluster
from sim.errors import InputError
from sim.units import MiB
from topologies import cluster

MOST_DEVICES = int(4 * MiB)
"""Devices of the largest machine that is replayed (arrays over all of them are held)."""


def build_machine(
    preset: str, num_devices: int | None = None, parameters: Mapping[str, object] | None = None
) -> Cluster:
    """Return the machine. Raises `InputError`, also for a parameter of the wrong kind (a text for a number, ...)."""
    if num_devices is not None and num_devices > MOST_DEVICES:
        raise InputError(
            f"num_devices={num_devices} is more than can be replayed; choose at most {MOST_DEVICES}"
        )
    stated = dict(parameters or {})
    try:
        return cluster(preset, num_devices, **stated)
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError) as problem:
        if not stated:
            raise
        words = ", ".join(f"{key}={value!r}" for key, value in stated.items())
        raise InputError(
            f"{preset} cannot be built with {words}: {problem}; give numbers, or leave it out"
        ) from problem
