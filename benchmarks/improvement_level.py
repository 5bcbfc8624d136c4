"""How often an improvement bound of the method "weights" is false in the worst case.

    python benchmarks/improvement_level.py [--write]

The worst case is a two-point law of gains, and the share is computed. A user's gain is `a` with
probability p, else `b`. The released numbers are the sum of gains and, times BALANCE, the sum of
their squares, each with noise of the same standard deviation. The bound is false if it exceeds the
mean gain. Its probability is a sum over the binomial count of users with gain `a`, and an integral
over the noise on the squares. Nothing is simulated. With --write the table goes to
benchmarks/results/improvement_level.md.
"""

import argparse
import math

import numpy as np
from record import record
from scipy import stats

from confide.offline.gain_contributions import BALANCE, Moments
from confide.offline.gain_planning import CLIPS, MOST_EPSILON, MOST_MU, Z
from confide.privacy.accounting import gaussian_epsilon, gaussian_mu
from confide.privacy.request import Relation

USERS = (1, 3, 30, 100_000)
# Of the expected number of users with the rarer gain.
EXPECTED = np.concatenate(
    [np.geomspace(0.05, 1, 8), np.linspace(1.1, 6, 20), np.geomspace(6.5, 300, 18)]
)
COMMON_GAINS = (0.0, 0.0003, 0.03, 0.3, 1.0)
ABOUT = """A bound states 95 % confidence: at most 0.05 of the bounds may be false. The largest
share is taken over clips, relations, numbers of users and two-point laws of gains, by
computation. Gains are in units of the clip times the largest return. The method `weights` is
refused above mu = 1.6 (with a delta) and epsilon = 2.75 (without). With less noise, a few users
with large losses can be absent from the sample without a sign of it.
"""
QUANTILES = (np.arange(48) + 0.5) / 48
RELATIONS = (Relation.REPLACE, Relation.NULL)


def noise_law(distribution: str, std: float):
    return (
        stats.norm(scale=std)
        if distribution == "gaussian"
        else stats.laplace(scale=std / math.sqrt(2))
    )


def false_share(rare: float, common: float, users: int, expected: float, law, std: float) -> float:
    """Return how often the bound exceeds the mean.

    On average `expected` users have the gain `rare`. The others have the gain `common`.
    """
    p = expected / users
    most = min(users, math.ceil(expected + 12 * math.sqrt(expected) + 12))
    least = max(0, math.floor(expected - 12 * math.sqrt(expected) - 12))
    count = np.arange(least, most + 1)
    excess = (count - expected) * (rare - common)
    squares = count * rare**2 + (users - count) * common**2
    square_noise = law.ppf(QUANTILES) / BALANCE
    raised = np.maximum(squares[:, None] + square_noise + Z * std / BALANCE, 0.0)
    needed = Z * np.sqrt(raised + std**2) - excess[:, None]
    return float(stats.binom.pmf(count, users, p) @ law.sf(needed).mean(axis=1))


def worst(
    distribution: str, loss: float, clips=CLIPS, users=USERS, relations=RELATIONS
) -> tuple[float, str]:
    """The largest share of false bounds over clips, relations and laws, and where it is.

    `loss` is mu, or epsilon without delta.
    """
    largest_share = 0.0
    where = ""
    for clip in clips:
        bound = Moments(-1 / clip, 1 - 1 / clip)
        for relation in relations:
            if distribution == "gaussian":
                std = bound.sensitivity(relation) / loss
            else:
                std = math.sqrt(2) * bound.l1_sensitivity(relation) / loss
            law = noise_law(distribution, std)
            for rare, other in ((bound.low, bound.high), (bound.high, bound.low)):
                for n in users:
                    for share in COMMON_GAINS:
                        for expected in EXPECTED[n > EXPECTED]:
                            share_false = false_share(
                                rare, share * other, n, float(expected), law, std
                            )
                            if share_false > largest_share:
                                largest_share = share_false
                                where = (
                                    f"clip {clip:g}, {relation.value}, {expected:.3g} of {n:,} "
                                    f"users have a gain of {rare:.3g}, "
                                    f"the others {share * other:.3g}"
                                )
    return largest_share, where


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    lines = [
        "| noise | loss | epsilon at delta = 1e-6 | largest share of false bounds | where |",
        "|---|---|---|---|---|",
    ]
    for epsilon in (1.0, 4.0, gaussian_epsilon(MOST_MU, 1e-6), 12.0, 30.0, 50.0):
        mu = gaussian_mu(epsilon, 1e-6)
        share, where = worst("gaussian", mu)
        lines.append(f"| Gaussian | mu = {mu:.3g} | {epsilon:.3g} | {share:.4f} | {where} |")
    for epsilon in (1.0, MOST_EPSILON, 6.0, 12.0):
        share, where = worst("laplace", epsilon)
        lines.append(f"| Laplace (delta = 0) | epsilon = {epsilon:g} | | {share:.4f} | {where} |")
    record(
        "The level of improvement bounds by weights",
        "\n".join([*lines, "", ABOUT]),
        write=options.write,
    )


if __name__ == "__main__":
    main()
