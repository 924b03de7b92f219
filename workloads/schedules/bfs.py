"""Looped breadth-first (Lamy-Poirier, arXiv:2211.05953): a chunk for all microbatches, the next.

Bubble (p-1)(F+B+W)/v for m >= p; peak: all m microbatches. Its point is data parallelism: a chunk's
weights are gathered once and its gradients reduced once a step. The backward walks chunks and
microbatches downwards.
"""

from workloads.schedules.action import Orders, backward, forward
from workloads.schedules.kind import Request


def bfs(request: Request) -> Orders:
    """Return every rank's order: F chunk by chunk, then BW in exactly the opposite order."""
    walk = [(c, i) for c in range(request.chunks) for i in range(request.num_microbatches)]
    order = (*(forward(c, i) for c, i in walk), *(backward(c, i) for c, i in reversed(walk)))
    return (order,) * request.num_ranks
