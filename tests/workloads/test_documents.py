"""Histograms of documents: means by hand, every way to write one, every way to get it wrong."""

import pytest

from sim.errors import PlanError
from workloads.documents import check_documents, documents_text, parse_documents


def test_means_of_a_histogram_by_hand() -> None:
    """Three documents of 2 tokens and one of 6: 12 tokens, 6 of them in the long one."""
    found = parse_documents("2:3,6:1")
    assert found.mean_length == 3.0
    assert found.met_length == (3 * 2 * 2 + 6 * 6) / 12 == 4.0
    assert found.scores_per_token() == (3 * 2 + 18) / 12 == 2.0


def test_a_window_cuts_long_documents_only() -> None:
    """Of 6 tokens with 4 keys each at most: 18 scores less the triangle of 2 x 2 / 2."""
    assert parse_documents("6").scores_per_token(4) == (18 - 2) / 6
    assert parse_documents("4").scores_per_token(4) == parse_documents("4").scores_per_token() == 2


@pytest.mark.parametrize(
    "text", ["512:3,4096:1", "512:0.75,4096:0.25", "4096:2, 512:6", "512:1,512:2,4096:1"]
)
def test_one_histogram_written_in_several_ways(text) -> None:
    assert parse_documents(text) == parse_documents(documents_text({512: 3, 4096: 1}))


def test_a_file_of_lengths_and_counts(tmp_path) -> None:
    for name, head in (("with", "length,count\n"), ("without", "")):
        (tmp_path / name).write_text(f"{head}512,300\n4096,100\n\n")
        assert parse_documents(f"file:{tmp_path / name}") == parse_documents("512:3,4096:1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("many", r"length 'many' is no number; write a length"),
        ("0", r"length '0' must be a whole number of tokens, 1 or more"),
        ("-5:1", r"length '-5' must be a whole number"),
        ("2.5", r"length '2.5' must be a whole number"),
        ("512:-1", r"-1 documents of 512 tokens; a share or count must be 0 or more"),
        ("512:0", r"holds no documents; give one share above 0"),
        ("512:", r"share '' is no number"),
        ("512:nan", r"share 'nan' is no number"),
        ("file:/nowhere.csv", r"documents='file:/nowhere.csv': No such file .* columns length,count"),
    ],
)  # fmt: skip
def test_what_is_no_histogram(text, message) -> None:
    with pytest.raises(PlanError, match=message):
        parse_documents(text)


def test_a_row_of_a_file_with_other_fields(tmp_path) -> None:
    (tmp_path / "x.csv").write_text("length,count\n512,1,2\n")
    with pytest.raises(PlanError, match="row 1 has 3 fields; write length,count"):
        parse_documents(f"file:{tmp_path / 'x.csv'}")


def test_documents_longer_than_a_sequence() -> None:
    check_documents("4096", 4096)
    with pytest.raises(
        PlanError, match=r"of 4097 tokens is longer than seq_len=4096; .* 4097 or more"
    ):
        check_documents("512:9,4097:1", 4096)
