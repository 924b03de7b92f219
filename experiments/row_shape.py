"""Shape of a measured run: its columns of numbers, and where they depart from the model it names."""

from experiments.row_text import Row, check_count, flag, text, whole
from workloads.model import Model
from workloads.model_row import COLUMNS, preset_of

SIZES = (
    "gpus", "gpus_per_node", "n_layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "seq_len",
    "global_batch_sequences", "micro_batch", "tp", "pp", "vpp", "cp", "dp", "grad_accum", "year",
)  # fmt: skip
"""Columns of whole numbers, 1 and more."""
OF_SOME = ("ffn_hidden", "n_experts", "topk", "expert_ffn", "ep", "etp")
"""Columns of whole numbers that are 0 where a model has no such thing."""
FLAGS = ("gated_mlp", "sp")


def check_numbers(row: Row) -> None:
    """Raise `InputError` for the first column of a run that holds no number of its kind; blank ones are not stated."""
    for column in SIZES:
        whole(row, column)
    for column in OF_SOME:
        check_count(row, column)
    for column in FLAGS:
        flag(row, column)


def departures(row: Row, model: Model) -> tuple[str, ...]:
    """Return where the shape a row states is not that of the preset its model names, and which was taken."""
    base = preset_of(text(row, "model"))
    if base is None:
        return ()
    notes = []
    for column, name in (*COLUMNS.items(), ("gated_mlp", "gated_mlp")):
        usual, taken = getattr(base, name), getattr(model, name)
        stated = flag(row, column) if column in FLAGS else text(row, column)
        number = float(stated) if stated not in (None, "") else usual
        if number != usual and (taken or usual):
            whose = "the row's" if taken == number else f"the preset's {usual:d}"
            notes.append(f"{column}={number:g} is not {base.name}'s {usual:d}: {whose} is taken")
    return tuple(notes)
