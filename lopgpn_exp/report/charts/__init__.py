"""Charts as SVG elements of a page: `Chart` draws marks between two axes.

The charts of runs, of their calibration and of sweeps are functions of the modules `run_charts`, `calibration_charts`
and `sweep_charts`.
"""

from lopgpn_exp.report.charts.svg import STYLE, Chart, chart_row, legend, span

__all__ = ["STYLE", "Chart", "chart_row", "legend", "span"]
