"""Collectives: what moves where, and what it costs on a graph. One algorithm a file; the table is in `library`."""

from sim.collectives.communicator import KINDS, Communicator
from sim.collectives.flow_rounds import FlowRound, flow_rounds
from sim.collectives.library import ALGORITHMS, LIBRARIES, library_of
from sim.collectives.phase import CollectivePlan, Phase
from sim.collectives.point_to_point import point_to_point
from sim.collectives.stage import Algorithm

__all__ = [
    "ALGORITHMS",
    "KINDS",
    "LIBRARIES",
    "Algorithm",
    "CollectivePlan",
    "Communicator",
    "FlowRound",
    "Phase",
    "flow_rounds",
    "library_of",
    "point_to_point",
]
