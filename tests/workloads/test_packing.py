"""Scores between pieces of a sequence: counted one by one, by hand, and drawn."""

import numpy as np
import pytest

from workloads.documents import parse_documents
from workloads.packing import Spread, document_starts, piece_scores, pieces, step_scores


def test_pieces_of_each_order() -> None:
    assert pieces("contiguous", 4) == [(0,), (1,), (2,), (3,)]
    assert pieces("zigzag", 4) == [(0, 7), (1, 6), (2, 5), (3, 4)]


def test_scores_between_pieces_by_hand() -> None:
    """Two documents of 3 and 5 tokens in pieces of 4: the second starts in the first piece."""
    found = piece_scores(np.array([0.0, 4.0, 8.0]), np.array([0.0, 3.0, 8.0]), 0)
    assert found.tolist() == [[4.5 + 0.5, 0.0], [4.0, 8.0]]
    assert found.sum() == (3 * 3 + 5 * 5) / 2


@pytest.mark.parametrize("window", [0, 5, 16, 100])
def test_scores_are_those_a_mask_has(window) -> None:
    """Counted one by one on a fine grid, documents, window and pieces at once."""
    edges, bounds, fine = np.array([0.0, 3, 16, 20, 48]), np.linspace(0, 48, 7), 8
    place = (np.arange(48 * fine) + 0.5) / fine
    document = np.searchsorted(edges, place)
    ahead = place[:, None] - place[None, :]
    mask = (document[:, None] == document[None, :]) & (ahead >= 0)
    mask &= ahead < (window or 48)
    piece = (place // 8).astype(int)
    counted = np.zeros((6, 6))
    np.add.at(counted, (piece[:, None] + 0 * piece, piece[None, :] + 0 * piece[:, None]), mask)
    np.testing.assert_allclose(piece_scores(bounds, edges, window), counted / fine**2, atol=1.0)


def test_the_ring_of_contiguous_pieces_by_hand() -> None:
    """Pieces of 4 tokens: 8 scores on the diagonal, 16 in each whole block, none of later keys."""
    found = step_scores(Spread(16, 4, "contiguous"), 0)
    assert found.tolist() == [[8, 0, 0, 0], [8, 16, 0, 0], [8, 16, 16, 0], [8, 16, 16, 16]]
    assert (step_scores(Spread(16, 4, "zigzag"), 0) == 8.0).all()


def test_documents_that_fill_pieces_never_leave_them() -> None:
    found = step_scores(Spread(64, 4, "contiguous", documents="16"), 0)
    assert found[:, 0].tolist() == [128.0] * 4
    assert not found[:, 1:].any()


@pytest.mark.parametrize("balance", ["zigzag", "contiguous"])
def test_a_draw_moves_scores_and_makes_none(balance) -> None:
    documents = "100:0.5,1000:0.4,4000:0.1"
    mean = parse_documents(documents).scores_per_token()
    spreads = [Spread(8192, 8, balance, 2, documents, seed) for seed in (0, 1)]
    draws = [step_scores(spread, 0, draw) for spread in spreads for draw in (0, 1)]
    assert [draw.sum() for draw in draws] == pytest.approx([8192 * mean] * 4)
    assert len({tuple(draw.ravel()) for draw in draws}) == 4
    again = step_scores.__wrapped__(spreads[1], 0, 1)
    assert (again == draws[3]).all()


def test_drawn_documents_have_the_lengths_of_the_histogram() -> None:
    starts = document_starts(parse_documents("100:0.5,300:0.5"), 1_000_000, (7, 0, 0))
    lengths = np.diff(starts)
    assert set(lengths) == {100.0, 300.0}
    assert lengths.mean() == pytest.approx(200.0, rel=0.03)


def test_one_document_a_sequence_is_no_packing() -> None:
    for balance in ("zigzag", "contiguous"):
        alone = step_scores(Spread(4096, 4, balance), 0)
        packed = step_scores(Spread(4096, 4, balance, documents="4096"), 0)
        np.testing.assert_allclose(packed, alone)
