"""Learners for contextual linear bandits."""
