"""The seam: bounded contributions in, public statistics out."""

from confide.privatizers.central import CentralPrivatizer, Privatizer, best_counter, release_once, worst_std
from confide.privatizers.schedule import Schedule, custom, every, every_episode, geometric

__all__ = [
    "CentralPrivatizer",
    "Privatizer",
    "Schedule",
    "best_counter",
    "custom",
    "every",
    "every_episode",
    "geometric",
    "release_once",
    "worst_std",
]
