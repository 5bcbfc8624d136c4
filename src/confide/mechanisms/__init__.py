"""Noise, and what is built of it."""
