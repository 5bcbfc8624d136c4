"""Counters side by side in one run: absorbs per second, memory, and noise.

Ratios only: machines are noisy.

    python benchmarks/counters.py [--episodes 1000000] [--write]

With --write the table goes to benchmarks/results/counters.md, with the commit and the arguments
that made it.
"""

import argparse
import time
import tracemalloc

import numpy as np
from record import record

from confide.mechanisms.counters import (
    Buffered,
    Counter,
    Discounted,
    HonakerTree,
    Leaves,
    Toeplitz,
    Tree,
    best_ratio,
    noise_on_rate,
)
from confide.mechanisms.counters.buffered import optimal_gaps
from confide.mechanisms.counters.toeplitz import square_root
from confide.mechanisms.sources import noise_source
from confide.mixtures.printed import MixtureSetting, paper_noise, tight_noise
from confide.privacy import CentralDP, JointDP, loss_for
from confide.privacy.bounded import Bounded, L2Ball
from confide.privatizers import geometric, worst_std

SIZE = 5 * 6 * 6
PRIVACY = CentralDP(1.0, 1e-5)


class PlainTree:
    """A straightforward NumPy binary tree, as one would write it in a notebook."""

    def __init__(self, leaves: int, sigma: float, rng: np.random.Generator) -> None:
        self.levels = leaves.bit_length()
        self.sigma = sigma
        self.rng = rng
        self.t = 0
        self.exact = np.zeros((self.levels, SIZE))
        self.noisy = np.zeros((self.levels, SIZE))

    def absorb(self, values: np.ndarray) -> None:
        self.t += 1
        i = (self.t & -self.t).bit_length() - 1
        node = values + self.exact[:i].sum(axis=0)
        self.exact[:i] = 0
        self.noisy[:i] = 0
        self.exact[i] = node
        self.noisy[i] = node + self.rng.normal(0.0, self.sigma, SIZE)

    def release(self) -> np.ndarray:
        return self.noisy.sum(axis=0)


def seconds(absorb, contribution, episodes: int) -> float:
    start = time.process_time()
    for _ in range(episodes):
        absorb(contribution)
    return time.process_time() - start


def throughput(episodes: int) -> list[str]:
    bound = L2Ball(1.0, SIZE)
    contribution = bound.clip(np.full(SIZE, 0.01))
    counter = Counter(
        bound,
        Buffered(episodes),
        loss=loss_for(PRIVACY),
        request=PRIVACY,
        users=episodes,
        noise=noise_source("fast", 0),
    )
    plain = PlainTree(episodes, 1.0, np.random.default_rng(0))
    # The first call compiles.
    counter.absorb(contribution)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(1000):
        counter.absorb(contribution)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    chunk = (episodes - 2000) // 20
    rounds = 20
    times = np.array(
        [
            [
                seconds(plain.absorb, contribution.values, chunk),
                seconds(counter.absorb, contribution, chunk),
            ]
            for _ in range(rounds)
        ]
    )
    # medians over interleaved rounds: other processes come and go
    plain_rate, buffered_rate = chunk / np.median(times, axis=0)
    ratios = times[:, 0] / times[:, 1]
    total = times.sum(axis=0)
    held = (
        sum(part.size for memory in (counter._private, counter._public) for part in memory.values())
        + counter._prefix.size
    )
    rounds_ = f"{ratios.min():.2f} to {ratios.max():.2f}"
    return [
        (
            "| counter, 5 x 6 x 6 stack | absorbs per CPU-second (median) | "
            "relative to the plain tree: median | total | range | arrays held |"
        ),
        "|---|---|---|---|---|---|",
        f"| plain NumPy tree | {plain_rate:,.0f} | 1.00 | 1.00 | - | {2 * plain.levels} |",
        f"| confide, buffered ({episodes:,} leaves) | {buffered_rate:,.0f} | "
        f"{buffered_rate / plain_rate:.2f} "
        f"| {total[0] / total[1]:.2f} | {rounds_} | {held / SIZE:g} |",
        "",
        f"Memory growth over 1000 absorbs: {grown} bytes.",
    ]


def noise() -> list[str]:
    lines = [
        "| maximal std, unit sensitivity, mu = 1 | n = 1e3 | 1e4 | 1e5 | 1e6 |",
        "|---|---|---|---|---|",
    ]
    sizes = (10**3, 10**4, 10**5, 10**6)
    lines.append(
        "| square-root Toeplitz | "
        + " | ".join(f"{float((square_root(n) ** 2).sum()):.4f}" for n in sizes)
        + " |"
    )
    for buffers in (4, 5, 6):
        values = [worst_std(Buffered(n, optimal_gaps(n, buffers))) for n in sizes]
        lines.append(
            f"| buffered, {buffers} buffers | "
            + " | ".join(f"{value:.4f}" for value in values)
            + " |"
        )
    return lines


def calibration() -> list[str]:
    lines = [
        (
            "| Lambda, K = 1e5, eps = 1, delta = 1e-5, H = 5, d = 5 | counter | releases | "
            "noise / L^2 | paper / this | true epsilon |"
        ),
        "|---|---|---|---|---|---|",
    ]
    setting = MixtureSetting(100_000, 5, 5, 0.1)
    privacy = JointDP(1.0, 1e-5)
    times = geometric(setting.episodes).times
    sizes = np.diff([0, *times])
    paper = paper_noise(privacy, setting)
    every_episode = (Tree, HonakerTree, Toeplitz, Buffered)
    noises = [
        paper,
        *(tight_noise(privacy, counter(setting.episodes), setting) for counter in every_episode),
        tight_noise(privacy, Tree(len(times)), setting),
        # Least squares over all releases make the noise of these two counters smaller.
        *(
            tight_noise(privacy, counter, setting, noise_on_rate(counter, sizes))
            for counter in (Leaves(len(times)), Discounted(len(times), best_ratio(sizes)))
        ),
        tight_noise(privacy, Toeplitz(len(times)), setting),
    ]
    lines += [
        f"| {one.name} | {one.counter.name} | {one.counter.leaves:,} | {one.noise:.4g} "
        f"| {paper.noise / one.noise:.0f} | {one.loss.epsilon_at(privacy.delta):.3g} |"
        for one in noises
    ]
    return lines


def covariance(runs: int = 100_000) -> list[str]:
    """Compare the empirical covariance of a buffered counter's releases with B B^T.

    Each coordinate is one run.
    """
    leaves = 24
    bound = L2Ball(1.0, runs)
    counter = Counter(
        bound,
        Buffered(leaves),
        loss=loss_for(PRIVACY),
        request=PRIVACY,
        users=leaves,
        noise=noise_source("fast", 1),
    )
    seen = []
    for _ in range(leaves):
        counter.absorb(Bounded(np.zeros(runs), bound))
        seen.append(counter.release().values)
    from confide.mechanisms.counters import dense

    decoder, _ = dense(Buffered(leaves))
    expected = counter.noise.scale**2 * decoder @ decoder.T
    std = np.sqrt(np.diag(expected))
    error = np.abs((np.cov(seen) - expected) / np.outer(std, std)).max()
    return [
        f"Covariance of 24 releases of the buffered counter over {runs:,} runs: "
        f"largest deviation from B B^T {error:.4f}, in units of the "
        f"standard deviations (one standard error: {(2 / runs) ** 0.5:.4f})."
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=1_000_000, help="the number of episodes")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    sections = [throughput(options.episodes), noise(), calibration(), covariance()]
    text = "\n\n".join("\n".join(lines) for lines in sections) + "\n"
    record("Counters", text, write=options.write)


if __name__ == "__main__":
    main()
