"""Constants of software: few, with what they were fitted on; and how they are fitted."""

import pytest

from experiments.calibration import software as fit
from experiments.software_constants import SOFTWARE_CONSTANTS, cross_validation


def test_there_are_at_most_ten_and_at_most_eight_profiles() -> None:
    assert len(SOFTWARE_CONSTANTS) <= 10
    assert len(fit.SOFTWARE) <= 8


def test_a_few_runs_of_each_group_are_taken() -> None:
    row = {"id": "mpt-001", "trust": "A", "source": "s", "model": "m", "hardware": "A100-80GB"}
    rows = [row | {"id": f"mpt-{i:03}"} for i in range(9)] + [row | {"trust": "C"}]
    found = fit.chosen_rows(rows, fit.CONSTANTS["EAGER_BANDWIDTH"])
    assert [r["id"] for r in found] == ["mpt-000", "mpt-004", "mpt-008"]


def test_the_value_of_least_error_is_chosen_and_each_source_left_out() -> None:
    errors = {
        0.7: {"mpt": [-0.1, 0.1]},
        0.8: {"mpt": [0.01, -0.02], "titan": [0.2]},
        0.9: {"titan": [0.05]},
    }
    assert fit.best(errors, ["mpt"]) == 0.8
    assert fit.error_of(errors[0.8], ["mpt"]) == pytest.approx(0.015)
    text = fit.report("EAGER_BANDWIDTH", errors)
    assert "fitted on mpt: 0.8 share; shipped 0.8" in text
    assert "without titan" in text


def test_help_says_what_the_fit_does(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        fit.main(["-h"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "Fit the numeric constants of software on whole sources" in said
    assert "EAGER_BANDWIDTH" in said
    with pytest.raises(SystemExit) as ended:
        fit.main(["JITER"])
    assert ended.value.code == 2
    assert "JITER: neither constants nor the path of one table" in capsys.readouterr().err


def test_the_kept_cross_validation_names_constants_and_values_tried() -> None:
    kept = cross_validation()
    assert {out.constant for out in kept} == set(fit.CONSTANTS)
    assert all(out.source in fit.CONSTANTS[out.constant].sources for out in kept)
    assert all(out.chosen in fit.CONSTANTS[out.constant].values for out in kept)
