"""The network under load: which links groups use together, and how activities share them."""

from sim.network.fair_share import fair_rates, fair_rates_few

__all__ = ["fair_rates", "fair_rates_few"]
