"""``compare``: runs side by side, at equal tokens a step."""

from typing import Annotated, Any

import typer

from experiments.cli_output import AsJson, Overrides, emit, table, working
from sim.errors import InputError

FIGURES = (
    "step_time_s", "tokens_per_s", "tokens_per_s_per_device", "tflops_per_device", "mfu", "mfu_causal", "hfu",
    "bubble_fraction", "overlap_fraction", "peak_memory_bytes", "fits", "num_devices",
)  # fmt: skip


def compare(
    runs: Annotated[list[str], typer.Argument(help="Two or more run files or run presets.")],
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs at equal tokens a step: figures, and the ledger cause by cause."""
    from experiments.runfile import load_run

    if len(runs) < 2:
        raise InputError(f"compare needs two runs or more, got only {runs[0]}")
    configs = [load_run(run, overrides or ()) for run in runs]
    tokens = {c.name: c.plan.global_batch * c.plan.seq_len for c in configs}
    if len(set(tokens.values())) > 1:
        stated = ", ".join(f"{name} {count:,}" for name, count in tokens.items())
        raise InputError(
            f"tokens a step differ ({stated}); make them equal, e.g. --set plan.global_batch=N"
        )
    from experiments.simulation import simulate_run

    answers: list[dict[str, Any]] = []
    for config in configs:
        with working(f"simulating {config.name}"):
            answers.append({"name": config.name, **simulate_run(config).summary()})
    names = [answer["name"] for answer in answers]
    causes = dict.fromkeys(cause for a in answers for cause in a["ledger"]["mean"])
    emit(
        {"runs": answers},
        as_json,
        lambda: [
            table([(f, *(a[f] for a in answers)) for f in FIGURES], ("figure", *names)),
            table(
                [(c, *(a["ledger"]["mean"].get(c, 0.0) for a in answers)) for c in causes],
                ("seconds of the step, by cause", *names),
            ),
        ],
    )
