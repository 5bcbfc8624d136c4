"""How often `confide audit AGENT --twin noise` catches noise that is 20 % too small.

    python benchmarks/audit_power.py [--runs 8000] [--seeds 100] [--real 300] [--write]

The audits have the default epsilon, delta and number of runs. A whole audit of an agent plans
thousands of times. So `seeds` audits are made of scores that are drawn from their law: what is
noised is the same in every run (LSVI-UCB excepted, whose questions follow from releases: one run of
it is taken for all), and the noise is Gaussian. The mean of the score over `real` runs of the agent
itself, and its standard deviation, are shown beside those of the law.
"""

import argparse
import math
from dataclasses import dataclass

import numpy as np
from record import record

from confide.agents.catalogue import private_agents
from confide.audit import refute
from confide.audit.agents import AgentSubject
from confide.audit.mechanisms import Scaled
from confide.mechanisms.sources import FastSource
from confide.privacy import CentralDP, GaussianDP

PRIVACY = CentralDP(1.0, 1e-2)


@dataclass(frozen=True)
class Law:
    """The score of an attack, drawn from its law.

    The score is the logarithm of a likelihood ratio between two Gaussians that are `shift` standard
    deviations apart. `factor` is the true noise over the stated noise.
    """

    loss: GaussianDP
    shift: float
    factor: float
    reach: float

    def observe(self, problem: int, runs: int, rng: np.random.Generator) -> np.ndarray:
        return self.shift * (
            self.factor * rng.normal(size=(runs, 1)) + self.shift * (problem - 0.5)
        )

    def score(self):
        return lambda seen: seen[:, 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=8000, help="the number of runs")
    parser.add_argument("--seeds", type=int, default=100, help="the number of seeds")
    parser.add_argument("--real", type=int, default=300)
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    lines = [
        "| agent | share of the stated loss that the two data sets use | noise 20 % too small: "
        f"refuted, of {options.seeds} "
        "| honest: refuted | smallest epsilon refuted with 90 % | score, "
        f"of {options.real} runs / by law |",
        "|---|---|---|---|---|---|",
    ]
    factor = Scaled(FastSource(np.random.default_rng(0))).factor
    for name in private_agents():
        attacked = AgentSubject(name, PRIVACY, twin="noise")
        reach = attacked.reach
        loss = attacked.loss
        laws = [Law(loss, reach * loss.mu, f, reach) for f in (factor, 1.0)]
        audits = [
            [
                refute(
                    law, delta=PRIVACY.delta, runs=options.runs, rng=np.random.default_rng([seed])
                )
                for seed in range(options.seeds)
            ]
            for law in laws
        ]
        broken, honest = (sum(one.refuted for one in each) for each in audits)
        seen = attacked.observe(1, options.real, np.random.default_rng(7))[:, 0]
        shift = laws[0].shift
        score = (
            f"{seen.mean():.3f} +- {seen.std() / math.sqrt(options.real):.3f} / {shift**2 / 2:.3f}"
        )
        spread = f"std {seen.std():.3f} / {factor * shift:.3f}"
        lines.append(
            f"| {name} | {reach:.3f} | {broken} | {honest} | {audits[0][0].detectable:.3f} | "
            f"{score}; {spread} |"
        )
        print(lines[-1], flush=True)
    true = GaussianDP(loss.mu / factor).epsilon_at(PRIVACY.delta)
    text = "\n".join(lines) + (
        f"\n\nepsilon = {PRIVACY.epsilon:g}, delta = {PRIVACY.delta:g}, "
        f"{options.runs:,} runs on each of two data sets, 99 % confidence. "
        f"The true epsilon of a Gaussian mechanism whose noise is 20 % too small is {true:.3f}. "
        "Where two data sets use less of the stated "
        "loss than 1, the noise would have to be smaller for the guarantee to be broken on them.\n"
    )
    record("The power of audits of agents", text, write=options.write)


if __name__ == "__main__":
    main()
