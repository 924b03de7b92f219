"""Report: one self-contained page about one run or several: numbers, an interactive timeline, charts, assumptions.

The page asks the network for nothing. The timeline is drawn by ``viewer.js`` from packed arrays; charts are SVG.
"""

from sim.report.page import ReportRun, write_report

__all__ = ["ReportRun", "write_report"]
