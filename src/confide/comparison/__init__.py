"""Comparisons of runs, with their statistics, figures and pages."""
