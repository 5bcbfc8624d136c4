"""What people see: figures for papers and one HTML file for everybody. plotly and matplotlib are imported when something is drawn."""

from confide.report.html import write_report
from confide.report.plots import plot_runs, save_figures

__all__ = ["plot_runs", "save_figures", "write_report"]
