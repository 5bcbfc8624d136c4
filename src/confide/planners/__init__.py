"""Planners: from released statistics to policies. Everything here is public."""
