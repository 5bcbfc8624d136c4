"""confide: reinforcement learning that keeps its users' secrets."""

__version__ = "0.1.0"
