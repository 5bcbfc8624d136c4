import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.mechanisms.counters import Buffered, Counter
from confide.mechanisms.counters.buffered import optimal_gaps
from confide.mechanisms.counters.toeplitz import square_root
from confide.mechanisms.sources import noise_source
from confide.privacy import CentralDP, loss_for
from confide.privacy.bounded import L2Ball
from confide.privatizers import worst_std


@pytest.mark.parametrize(
    ("n", "buffers", "slack"),
    [
        (1000, 4, 0.001),
        (100_000, 4, 0.01),
        (100_000, 6, 0.001),
        (1_000_000, 4, 0.02),
        (1_000_000, 6, 0.002),
    ],
)
def test_close_to_the_square_root(n, buffers, slack):
    assert worst_std(Buffered(n, optimal_gaps(n, buffers))) < (1 + slack) * float(
        (square_root(n) ** 2).sum()
    )


def test_at_most_ten_arrays_of_memory_however_long_the_stream():
    bound, privacy = L2Ball(1.0, 180), CentralDP(1.0, 1e-5)
    counter = Counter(
        bound,
        Buffered(100_000),
        loss=loss_for(privacy),
        request=privacy,
        users=100_000,
        noise=noise_source("fast", 0),
    )
    held = (
        sum(part.size for memory in (counter._private, counter._public) for part in memory.values())
        + counter._prefix.size
    )
    assert held <= 10 * bound.size


def test_closed_form_norms_equal_sums():
    counter = Buffered(5000)
    u, v = 1 - np.array(counter.gaps[0::2]), 1 - np.array(counter.gaps[1::2])
    c = np.zeros(5000)
    c[0] = 1.0
    # C(x) = prod (1 - v x)/(1 - u x), one factor at a time
    for zero, pole in zip(v, u, strict=True):
        c[1:] -= zero * c[:-1]
        for j in range(1, 5000):
            c[j] += pole * c[j - 1]
    assert counter.column_norm(2) == pytest.approx(np.linalg.norm(c), rel=1e-10)
    assert counter.column_norm(1) == pytest.approx(np.abs(c).sum(), rel=1e-10)


@pytest.mark.parametrize("gaps", [(0.5,), (0.5, 0.4), (0.0, 0.5), (0.5, 1.0), (0.1, 0.1)])
def test_gaps_must_interlace(gaps):
    with pytest.raises(InvalidParameter, match="increasing values"):
        Buffered(10, gaps)
