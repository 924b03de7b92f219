"""Files of tables: what spreadsheets write is read, what is no table is refused."""

from pathlib import Path

import pytest

from experiments.row_table import check_cells, read_rows
from sim.errors import InputError


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    return path


def test_a_byte_order_mark_and_blanks_of_names_are_no_part_of_a_name(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbfid, gpus,\r\na,8,\r\n\r\nb,16\r\n")
    assert read_rows(path) == [{"id": "a", "gpus": "8"}, {"id": "b", "gpus": "16"}]


def test_cells_of_no_column_are_told(tmp_path: Path) -> None:
    first, second = read_rows(write(tmp_path, b"id,gpus\na,8,, \nb,8,H100,9\n"))
    check_cells(first)
    with pytest.raises(InputError, match=r"'H100, 9' stands in no column; quote fields"):
        check_cells(second)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"id,gpus,id\na,8,b\n", "column id stands there twice; keep one"),
        (b"", "has no rows"),
        (b"id,gpus\n\n", "has no rows"),
        (b"id\n\xff\n", "cannot be read as a CSV in UTF-8"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_rows(write(tmp_path, content))


def test_a_folder_and_no_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="directory; give the path of a CSV"):
        read_rows(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read_rows(tmp_path / "absent.csv")
