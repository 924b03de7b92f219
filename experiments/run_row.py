"""Run of a row: model, cluster and plan of one measured run of a table."""

from experiments.row_cluster import cluster_of
from experiments.row_plan import plan_of
from experiments.row_shape import check_numbers, departures
from experiments.row_software import habits_of
from experiments.row_text import Row, UnsupportedError, text
from experiments.runfile import RunConfig
from sim.errors import InputError, PlanError
from workloads.model import Model
from workloads.model_row import model_from_row

COLUMNS = ("hardware", "gpus", "model", "seq_len", "global_batch_sequences", "tp", "pp", "dp")
"""Columns a table of runs must have; the others may be missing and count as blank."""


def run_of_row(row: Row) -> RunConfig:
    """Return the run of a row; what the row leaves out is assumed and listed.

    Raises `UnsupportedError` where the row does not state or no run expresses what it measured, other `InputError`
    where it contradicts itself or cannot be read.
    """
    missing = [column for column in COLUMNS if row.get(column) is None]
    if missing:
        raise InputError(f"column {', '.join(missing)} is missing; the table needs it")
    check_numbers(row)
    model = _model(row)
    habits, assumed = habits_of(row)
    plan, notes = plan_of(row, model, habits)
    cluster, more = cluster_of(row)
    return RunConfig(
        name=text(row, "id") or model.name,
        model=model,
        cluster=cluster,
        plan=plan,
        source=text(row, "source"),
        assumptions=(*more, assumed, *notes, *departures(row, model)),
    )


def _model(row: Row) -> Model:
    """Return the model; a shape that is absent is unsupported, not wrong."""
    try:
        return model_from_row(row)
    except PlanError as error:
        if "blank" in str(error):
            raise UnsupportedError(str(error)) from error
        raise
