"""Comparisons of runs, with their statistics, figures and pages."""

from confide.comparison.page import write_report
from confide.comparison.plots import plot_runs, plot_study, save_figures

__all__ = ["plot_runs", "plot_study", "save_figures", "write_report"]
