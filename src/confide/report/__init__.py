"""Reports: figures for papers, and a self-contained HTML page. plotly, matplotlib and Jinja2 are imported when they are needed."""

from confide.report.html import write_report
from confide.report.plots import plot_runs, plot_study, save_figures

__all__ = ["plot_runs", "plot_study", "save_figures", "write_report"]
