"""Trajectories in, bounded contributions out."""
