import pytest

from experiments.quantity import looks_like_quantity, parse_quantity
from sim.errors import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("250", 250.0),
        ("1e6", 1e6),
        ("1_000", 1000.0),
        ("1GiB", 2.0**30),
        ("1.5 MiB", 1.5 * 2**20),
        ("8KB", 8e3),
        ("400Gbit/s", 50e9),
        ("400 Gbps", 50e9),
        ("400Gb/s", 50e9),
        ("450GB/s", 450e9),
        ("450GBps", 450e9),
        ("8bit", 1.0),
        ("5us", 5e-6),
        ("500ms", 0.5),
        ("2h", 7200.0),
        ("80km", 80e3),
        ("989TFLOP/s", 989e12),
    ],
)
def test_a_quantity_is_read_in_base_units(text: str, value: float) -> None:
    assert parse_quantity(text) == pytest.approx(value, rel=1e-12)


def test_400G_is_refused_as_ambiguous_and_the_way_out_named() -> None:
    with pytest.raises(InputError, match=r"bandwidth='400G' is ambiguous.*400GB.*400Gbit/s"):
        parse_quantity("400G", "bandwidth")
    assert looks_like_quantity("400G")


def test_an_unknown_unit_is_named() -> None:
    with pytest.raises(InputError, match="unknown unit 'parsec'"):
        parse_quantity("3parsec")


@pytest.mark.parametrize("text", ["", "abc", "--3", "1 2", "GiB"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no number"):
        parse_quantity(text)
    assert not looks_like_quantity(text)
