"""Local privacy with reports by an index, against Gaussian noise of the same request.

    python benchmarks/local.py [--seeds 8] [--write]

epsilon = 1 and K = 1e6. Seeds from 200 on, which nothing was chosen on. Regret is exact; users are
simulated as crowds. With --write the tables go to benchmarks/results/local.md.
"""

import argparse
import math
from dataclasses import replace

import numpy as np
from record import record

from confide import JointDP, LocalDP, run
from confide.agents import LikelihoodVI, QuestionsVI
from confide.mechanisms.codebook import best_codebook, best_signs
from confide.mixtures.questions.contributions import Answers
from confide.privacy.accounting import gaussian_mu
from confide.privacy.bounded import L2Ball
from confide.privacy.loss import loss_for
from confide.problems import make

DELTA = 1e-5
USERS = 1_000_000
PROBLEMS = ("lock", "rand")
AGENTS = (
    (LikelihoodVI, "gaussian", f"Gaussian, (1, {DELTA:g})"),
    (LikelihoodVI, "codebook", "codebook, pure epsilon = 1"),
    (QuestionsVI, "signs", "randomized response, pure epsilon = 1"),
)


def regrets(problem: str, privacy: LocalDP, seeds: range, kind: type, noise: str) -> np.ndarray:
    """[seed]; Gaussian noise by a loss that is given, which is kept by additive noise."""
    regrets_by_seed = []
    for seed in seeds:
        problem_instance = make(problem)
        agent = kind(problem_instance.public, episodes=USERS, privacy=privacy)
        # The codes are those that are best for Gaussian noise.
        if noise == "gaussian":
            joint = LikelihoodVI(
                problem_instance.public,
                episodes=USERS,
                privacy=JointDP(privacy.epsilon, privacy.delta),
            )
            agent.calibration = replace(joint.calibration, loss=loss_for(privacy))
        finished_run = run(agent, problem_instance, seed=seed)
        assert agent.noise_level.distribution == noise
        regrets_by_seed.append(float(finished_run.regret[-1]))
        print(problem, agent.name, noise, seed, round(regrets_by_seed[-1]), flush=True)
    return np.array(regrets_by_seed)


def cell(values: np.ndarray) -> str:
    return (
        f"{values.mean():,.0f} ± {values.std(ddof=1) / math.sqrt(len(values)):,.0f} | "
        f"{np.median(values):,.0f} | {values.max():,.0f}"
    )


def regret_table(seeds: range) -> list[str]:
    privacy = LocalDP(1.0, DELTA)
    lines = [
        "| problem | agent | noise | regret: mean ± s.e. | median | largest |",
        "|---|---|---|---|---|---|",
    ]
    for problem in PROBLEMS:
        for kind, noise, label in AGENTS:
            lines.append(
                f"| {problem} | `{kind.name}` | {label} | "
                f"{cell(regrets(problem, privacy, seeds, kind, noise))} |"
            )
    return lines


def variances() -> list[str]:
    """Of one coordinate of one message, for contributions of norm at most 1."""
    head = (
        f"| epsilon | nearest of 1024 | codebook | Gaussian, delta = {DELTA:g}, "
        "distance sqrt(2) | Gaussian, distance 2 |"
    )
    lines = [head, "|---|---|---|---|---|"]
    for epsilon in (0.5, 1.0, 2.0, 5.0, 10.0):
        codebook = best_codebook(L2Ball(1.0, 20), epsilon)
        mu = gaussian_mu(epsilon, DELTA)
        lines.append(
            f"| {epsilon:g} | {codebook.nearest} | {codebook.std**2:.3g} | {2 / mu**2:.3g} | "
            f"{4 / mu**2:.3g} |"
        )
    return lines


def answers() -> list[str]:
    """The variance of one of D answers of 1/2 or -1/2, over D."""
    lines = [
        "| epsilon | answers in a message, of 8 | by signs | by a codebook |",
        "|---|---|---|---|",
    ]
    for epsilon in (0.5, 1.0, 2.0, 5.0, 10.0):
        signs = best_signs(Answers(8), epsilon)
        codebook = best_codebook(Answers(8), epsilon)
        lines.append(
            f"| {epsilon:g} | {signs.sign_count} | {signs.std**2 / 8:.3g} | "
            f"{codebook.std**2 / 8:.3g} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8, help="the number of seeds")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    text = [
        (
            "A device reports by an index where that has less noise than additive noise: "
            "see [privacy](../privacy.md)."
        ),
        "",
        "## Variance of one coordinate of one message, for contributions of norm at most 1",
        "",
        (
            "Two contributions of norm 1 are at most sqrt(2) apart if they are nonnegative, "
            "and 2 otherwise."
        ),
        "",
        *variances(),
        "",
        "## Variance of one of 8 yes/no answers in one message, over 8",
        "",
        "Signs: the message is about a few of the answers, which its nonce picks, "
        "by randomized response on all of them together. "
        "The one with less noise is used.",
        "",
        *answers(),
        "",
        f"## Regret, local, epsilon = 1, K = {USERS:,}, {options.seeds} seeds from 200 on",
        "",
        "Users are simulated as crowds: the noise of their messages is drawn as one Gaussian sum. "
        "Each row of `likelihood-vi` has "
        "the codes that are best for its noise (the norm of a code counts for a codebook, "
        "the distance between two for Gaussian noise).",
        "",
        *regret_table(range(200, 200 + options.seeds)),
        "",
    ]
    record("Local privacy by reports", "\n".join(text), write=options.write)


if __name__ == "__main__":
    main()
