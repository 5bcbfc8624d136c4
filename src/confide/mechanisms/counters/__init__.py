"""Counters: noisy sums of a stream, by different factorisations of the matrix of prefix sums.

`Discounted` releases discounted sums instead. The names in `FACTORISATIONS` stand in certificates
and saved states.
"""

from confide.mechanisms.counters.buffered import Buffered
from confide.mechanisms.counters.counter import (
    Counter,
    Factorisation,
    counter_identity,
    dense,
    noise_on_rate,
)
from confide.mechanisms.counters.discounted import Discounted, best_ratio
from confide.mechanisms.counters.exact import Exact
from confide.mechanisms.counters.leaves import Leaves
from confide.mechanisms.counters.toeplitz import Toeplitz
from confide.mechanisms.counters.tree import HonakerTree, Tree

FACTORISATIONS = {
    kind.name: kind for kind in (Exact, Leaves, Tree, HonakerTree, Toeplitz, Buffered, Discounted)
}
