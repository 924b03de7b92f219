"""``compare``: runs side by side, at equal tokens a step."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli_output import AsJson, Overrides, emit, table, working
from experiments.cli_simulate import check_writable, page
from sim.errors import InputError

FIGURES = (
    "step_time_s", "low_step_time_s", "high_step_time_s",
    "tokens_per_s", "tokens_per_s_per_device", "tflops_per_device", "mfu", "mfu_causal", "hfu",
    "bubble_fraction", "overlap_fraction", "peak_memory_bytes", "fits", "num_devices",
)  # fmt: skip


def compare(
    runs: Annotated[list[str], typer.Argument(help="Two or more run files or run presets.")],
    overrides: Overrides = None,
    report: Annotated[
        Path | None, typer.Option(metavar="F.html", help="Write one page of all, aligned in time.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs at equal tokens a step: figures, and the ledger cause by cause."""
    from experiments.runfile import load_run

    check_writable(report)
    if len(runs) < 2:
        raise InputError(f"compare needs two runs or more, got only {runs[0]}")
    configs = [load_run(run, overrides or ()) for run in runs]
    tokens = {c.name: c.plan.global_batch * c.plan.seq_len for c in configs}
    if len(set(tokens.values())) > 1:
        stated = ", ".join(f"{name} {count:,}" for name, count in tokens.items())
        raise InputError(
            f"tokens a step differ ({stated}); make them equal, e.g. --set plan.global_batch=N"
        )
    from experiments.bands import band, category_of
    from experiments.simulation import simulate_run

    answers: list[dict[str, Any]] = []
    results = []
    for config in configs:
        with working(f"simulating {config.name}"):
            result = simulate_run(config, merged=True)
            answer = {"name": config.name, **result.summary()}
        results.append(result)
        spread = band(category_of(config))
        answer["low_step_time_s"] = answer["step_time_s"] * spread.low
        answer["high_step_time_s"] = answer["step_time_s"] * spread.high
        answers.append(answer)
    if report:
        with working("writing the page"):
            page(list(zip(configs, results, answers, strict=True)), report)
    names = [answer["name"] for answer in answers]
    order = max(band(category_of(config)).order for config in configs)
    faster = _faster(answers, order)
    causes = dict.fromkeys(cause for a in answers for cause in a["ledger"]["mean"])
    emit(
        {"runs": answers, "faster": faster},
        as_json,
        lambda: [
            table([(f, *(a[f] for a in answers)) for f in FIGURES], ("figure", *names)),
            table(
                [(c, *(a["ledger"]["mean"].get(c, 0.0) for a in answers)) for c in causes],
                ("seconds of the step, by cause", *names),
            ),
            table(
                [(f["run"], f["than"], f"{f['likelihood']:.0%}") for f in faster],
                ("this run", "is faster than", "how likely"),
                "by how far predictions of one model were off from each other where both were measured",
            ),
        ],
    )


def _faster(answers: Sequence[Mapping[str, Any]], spread: float) -> list[dict[str, Any]]:
    """Return how likely each pair's predicted winner is the faster one."""
    from experiments.bands import likelihood

    found = []
    for one, other in combinations(answers, 2):
        first, second = sorted((one, other), key=lambda answer: float(answer["step_time_s"]))
        likely = likelihood(first["step_time_s"], second["step_time_s"], spread)
        found.append({"run": first["name"], "than": second["name"], "likelihood": likely})
    return found
