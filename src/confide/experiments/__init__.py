"""Runs: an agent, a problem, a seed, and what came of it."""
