"""What the simulator costs: CPU seconds of every speed target, beside what other simulators need.

``python -m experiments.benchmark [NAME ...]``. CPU seconds depend on the machine (the targets are for one core of a
2-core virtual machine); each line says what it measures, the figure, the target, and whether it is met.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.runfile import RunConfig, load_run
from experiments.simulation import build_cluster
from sim.cluster import Cluster
from sim.collectives import Communicator
from sim.engine import simulate
from sim.errors import unknown
from sim.network import fair_rates
from sim.rounds import play_rounds
from sim.timeline import Timeline
from sim.units import GiB, KiB, MiB
from topologies import cluster
from workloads.lower import lower
from workloads.mesh import groups
from workloads.software import software

RUN, FLAT = "llama3-405b", "h100-fat-tree"
SMALL, LARGE = 16384, 131072
FLOWS = 16000


class Line(NamedTuple):
    """One figure: what, how much, its unit, the target (at most; ``least``: at least), and what others need."""

    what: str
    value: float
    unit: str
    target: float
    peer: str = ""
    least: bool = False

    @property
    def met(self) -> bool:
        """Whether the target is reached."""
        return self.value >= self.target if self.least else self.value <= self.target


def _cpu(work: Callable[[], object], times: int = 1) -> float:
    """Least CPU seconds of several tries."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def grown(devices: int, preset: str = "") -> RunConfig:
    """The 405B plan with data parallelism (and the batch) grown to fill ``devices``."""
    config = load_run(RUN)
    batch = config.plan.global_batch * devices // SMALL
    changes = [f"cluster.num_devices={devices}", f"plan.global_batch={batch}"]
    return load_run(RUN, changes + ([f"cluster.preset={preset}"] if preset else []))


def _replay(config: RunConfig, machine: Cluster) -> Timeline:
    program = lower(config.model, config.plan)
    return simulate(program, machine, launch=software(config.plan.software).launch)


def step() -> Iterator[Line]:
    """The 405B step: lower and replay, at 16,384 and at 131,072 devices."""
    peer = "SimuMax replays 62,552 spans in 18 CPU-s"
    config = grown(SMALL)
    machine = build_cluster(config)
    spans = _replay(config, machine).num_spans
    small = _cpu(lambda: _replay(config, machine), 3)
    yield Line(f"405B on {SMALL:,}: lower + replay, {spans:,} spans", small, "CPU-s", 0.8, peer)
    times = {}
    for devices in (SMALL, LARGE):
        flat = grown(devices, FLAT)
        times[devices] = _cpu(partial(_replay, flat, build_cluster(flat)), 2)
    name = f"405B, dp grown 8 times to {LARGE:,} ({FLAT})"
    yield Line(f"{name}: lower + replay", times[LARGE], "CPU-s", 1.6)
    yield Line(f"{name}: of that of {SMALL:,}", times[LARGE] / times[SMALL], "times", 2.0)


def command() -> Iterator[Line]:
    """Whole commands from a cold start."""
    large = [f"cluster.num_devices={LARGE}", f"plan.global_batch={2048 * LARGE // SMALL}"]
    runs: tuple[tuple[int, list[str], float, float, str], ...] = (
        (SMALL, [], 5.0, 400 * MiB, "Calculon, a closed form: 0.5 CPU-s"),
        (LARGE, large, 12.0, 1.5 * GiB, ""),
        (LARGE, [*large, f"cluster.preset={FLAT}"], 12.0, 1.5 * GiB, ""),
    )
    for devices, changes, seconds, memory, peer in runs:
        spent, peak = _cold(changes)
        name = f"command, cold, {devices:,} devices" + (f" ({FLAT})" if len(changes) > 2 else "")
        yield Line(name, spent, "CPU-s", seconds, peer)
        yield Line(f"{name}: memory", peak / MiB, "MiB", memory / MiB)


def _cold(changes: list[str]) -> tuple[float, float]:
    """CPU seconds and peak bytes of one command.

    A small process starts it: the peak of a child starts at what its parent held.
    """
    sets = [part for change in changes for part in ("--set", change)]
    command = [sys.executable, "-m", "experiments.cli", "simulate", RUN, "--json", *sets]
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "sys.stdout.write(f'{used.ru_utime + used.ru_stime} {used.ru_maxrss}')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    spent, kibibytes = map(float, done.stdout.split())
    return spent, kibibytes * KiB


def ops() -> Iterator[Line]:
    """Ops replayed in a CPU second where nothing contends."""
    config = grown(SMALL, FLAT)
    machine = build_cluster(config)
    program = lower(config.model, config.plan)
    count = simulate(program, machine).num_spans
    spent = _cpu(lambda: simulate(program, machine), 3)
    yield Line("ops replayed, uncontended", count / spent, "ops/CPU-s", 100_000, least=True)


def graph() -> Iterator[Line]:
    """Graph, routes and link loads of all groups of the plan."""
    for devices, target in ((SMALL, 2.0), (LARGE, 6.0)):
        spent = _cpu(partial(_loads, grown(devices)))
        yield Line(f"graph, routes and loads of all groups, {devices:,}", spent, "CPU-s", target)
    yield Line("memory of this process so far", _peak() / MiB, "MiB", 1.5 * GiB / MiB)


def _loads(config: RunConfig) -> None:
    """Price the collectives of every axis of a plan, all groups of the axis at once."""
    machine = build_cluster(config)
    for axis in ("tp", "dp", "pp"):
        Communicator(machine, groups(config.plan, (axis,))).plan("all_gather", GiB, "ring")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KiB


def collectives() -> Iterator[Line]:
    """One all-reduce as one activity, and with every transfer of its ring a flow."""
    machine, everyone = cluster(FLAT, 4096), np.arange(4096)
    spent = _cpu(lambda: Communicator(machine, everyone).plan("all_reduce", GiB), 3)
    yield Line("all-reduce at 4,096, one activity", spent, "CPU-s", 0.05)
    peers = {
        512: "ASTRA-sim, analytical: 2.2 s",
        4096: "ASTRA-sim, analytical: 68 to 268 s, 5.5 GiB",
    }
    for devices, target in ((512, 3.0), (4096, 60.0)):
        ring = _cpu(partial(_ring, cluster(FLAT, devices)))
        count = 2 * (devices - 1) * devices
        name = f"ring in rounds at {devices:,}: {count:,} transfers"
        yield Line(name, ring, "CPU-s", target, peers[devices])


def _ring(machine: Cluster) -> float:
    everyone = np.arange(machine.num_devices)
    return play_rounds(machine, everyone, "all_reduce", GiB, "ring")


def max_min() -> Iterator[Line]:
    """Max-min rates of many flows at once."""
    for name, devices in ((FLAT, 2048), ("tpu-v5p", 4096)):
        machine, random = cluster(name, devices), np.random.default_rng(1)
        src, dst = random.integers(0, devices, (2, FLOWS))
        routes = machine.routes(src, dst)
        solve = partial(
            fair_rates,
            ceiling=np.full(FLOWS, np.inf),
            weight=np.ones(FLOWS),
            activity=routes.pair,
            resource=routes.link,
            load=routes.share,
            capacity=machine.link_capacity,
        )
        spent = _cpu(solve, 3)
        yield Line(
            f"max-min of {FLOWS:,} random flows, {name} {devices:,}", spent, "CPU-s", 0.05, "16 ms"
        )


BENCHMARKS: dict[str, Callable[[], Iterator[Line]]] = {
    "graph": graph,
    "step": step,
    "command": command,
    "ops": ops,
    "collectives": collectives,
    "max-min": max_min,
}
"""Every benchmark, by name; the graph first, before its cluster is cached."""


def main() -> None:
    """Print the benchmarks asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m experiments.benchmark")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    chosen = parser.parse_args().names or list(BENCHMARKS)
    for name in chosen:
        if name not in BENCHMARKS:
            parser.error(unknown("benchmark", name, BENCHMARKS))
    sys.stdout.write(f"{'':72} {'measured':>12} {'target':>12}  unit\n")
    for name in chosen:
        for line in BENCHMARKS[name]():
            sign = ">=" if line.least else "<="
            target = f"{sign} {line.target:,.6g}" if line.target else ""
            mark = "" if line.met else "  MISSED"
            sys.stdout.write(
                f"{line.what:72} {line.value:12,.4g} {target:>12}  {line.unit:<10}{line.peer}{mark}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
