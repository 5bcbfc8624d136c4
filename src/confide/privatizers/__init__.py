"""The seam: bounded contributions in, public statistics out."""

from confide.privatizers.central import CentralPrivatizer, Privatizer, best_counter, release_once, worst_std
from confide.privatizers.local import LocalPrivatizer
from confide.privatizers.message import Channel, Message, open_channel
from confide.privatizers.questions import Questions
from confide.privatizers.schedule import Schedule, custom, every, every_episode, geometric

__all__ = [
    "CentralPrivatizer",
    "Channel",
    "LocalPrivatizer",
    "Message",
    "Privatizer",
    "Questions",
    "Schedule",
    "best_counter",
    "custom",
    "every",
    "every_episode",
    "geometric",
    "open_channel",
    "release_once",
    "worst_std",
]
