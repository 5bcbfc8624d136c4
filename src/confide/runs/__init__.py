"""Runs of an agent on a problem, and their results."""
