"""Jitter: devices of one kind are not equally fast, and a synchronous step goes at the pace of the slowest.

Clocks, temperature, memory and host noise spread the speeds of devices. With speeds drawn from a
normal distribution of relative deviation s, the slowest of n is expected to take 1 + s z(n), z(n)
the mean of the largest of n standard normal draws. All ranks of a step meet at least once, so a
folded replay runs every kernel that much longer: exact in expectation, and the loss grows with
scale by itself. The ledger gives it as ``wait.slowest``.
"""

from statistics import NormalDist

from sim.errors import ProgramError


def slowest(num_ranks: int, jitter: float) -> float:
    """Return how much longer the slowest of ``num_ranks`` takes than the mean.

    Mean of the largest of n normal draws after Blom 1958: the quantile at (n - 0.375) / (n + 0.25).

    >>> slowest(1, 0.01), round(slowest(16384, 0.01), 4)
    (1.0, 1.0397)
    """
    if not 0 <= jitter < 1:
        raise ProgramError(
            f"jitter={jitter} must be from 0 to below 1: a share of a device's speed"
        )
    if num_ranks <= 1 or not jitter:
        return 1.0
    return 1.0 + jitter * NormalDist().inv_cdf((num_ranks - 0.375) / (num_ranks + 0.25))


def jitter_told(num_ranks: int, jitter: float) -> tuple[str, ...]:
    """Return what a replay assumes of the speeds of devices, in words.

    >>> jitter_told(8, 0.0)
    ()
    """
    longer = slowest(num_ranks, jitter) - 1.0
    if not longer:
        return ()
    return (
        f"speeds of equal devices differ by {jitter:.1%} (standard deviation): kernels take {longer:.1%} longer than on"
        f" the mean one, as on the slowest of {num_ranks:,} (wait.slowest in the ledger)",
    )
