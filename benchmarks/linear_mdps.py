"""Linear MDPs: every plan of batches and every promise on one protocol: K = 1e5, delta = 1e-5, regret relative to uniform play.

    python benchmarks/linear_mdps.py [--quick] [--write]

--quick takes two seeds of each row and a tenth of the users. With --write the tables go to docs/benchmarks/linear_mdps.md.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np
from record import record

from confide.agents import LSVIUCB, NextStateVI
from confide.experiments.runner import run
from confide.linear_mdps.batches import Batches, adaptive, growing, one_by_one, static
from confide.linear_mdps.printed import LinearSetting, printed_linear, useful_from
from confide.privacy.loss import compose
from confide.privacy.request import JointDP, LocalDP, NoPrivacy, Request
from confide.problems import latent, one_hot

DELTA, SEEDS, FRESH = 1e-5, range(16), range(100, 116)
NAMED = {"latent 0": lambda: latent(0), "latent 1": lambda: latent(1), "one-hot": lambda: one_hot()}
OTHERS = {
    **{f"latent {seed}": (lambda seed=seed: latent(seed)) for seed in (2, 3, 4, 5)},
    "latent 0, S=40 d=10": lambda: latent(0, states=40, dimension=10),
    "one-hot, S=8 H=9": lambda: one_hot(states=8, horizon=9),
}
WORLDS = NAMED | OTHERS


@dataclass(frozen=True)
class Case:
    """One cell: all that decides it."""

    world: str
    agent: str  # lsvi-ucb | next-state-vi
    privacy: Request
    plan: str = "default"
    calibration: str = "tight"
    episodes: int = 100_000
    seeds: tuple[int, ...] = tuple(SEEDS)


def plans(episodes: int) -> dict[str, Callable[[], Batches | None]]:
    return {
        "default": lambda: None,
        "growing x1.5": lambda: growing(episodes, first=196, ratio=1.5),
        "static, 28 batches (the paper's B)": lambda: static(episodes, 28),
        "adaptive, at most 20": lambda: adaptive(episodes),
        "B = K (Remark 7)": lambda: one_by_one(episodes),
    }


@cache
def world(name: str) -> Any:
    return WORLDS[name]()


def make(case: Case) -> Any:
    problem = world(case.world)
    if case.agent == "next-state-vi":
        return NextStateVI(problem.public, episodes=case.episodes, privacy=case.privacy)
    chosen = plans(case.episodes)[case.plan]()
    return LSVIUCB(problem.public, episodes=case.episodes, privacy=case.privacy, schedule=chosen, calibration=case.calibration)


def sample(case: Case) -> tuple[np.ndarray, int, float, float]:
    """(regret relative to uniform play of each seed, changes of policy, noise on Lambda, noise on a response of unit range)."""
    regrets, agent = [], None
    for seed in case.seeds:
        agent = make(case)
        done = run(agent, world(case.world), seed=seed)
        regrets.append(done.regret[-1] / (case.episodes * (done.optimal_value - done.uniform_value)))
    if not isinstance(agent, LSVIUCB):
        return np.array(regrets), agent.schedule.leaves - 1, agent.noise_level.std, float("nan")
    asked = agent.released().values[agent.algorithm.bound.size : -1].reshape(agent.asking.asked_steps, -1)
    return np.array(regrets), agent.switches, agent.noise_level.std, float(asked[0, -1])


def measured(cases: list[Case]) -> dict[Case, Any]:
    with get_context("spawn").Pool(2) as pool:
        return dict(zip(cases, pool.map(sample, cases, chunksize=1), strict=True))


def short(values: np.ndarray) -> str:
    return f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def joint(epsilon: float) -> Request:
    return JointDP(epsilon, DELTA)


def agents_table(seeds: tuple[int, ...], episodes: int, worlds: tuple[str, ...], title: str) -> list[str]:
    promises = {
        "eps = 1": joint(1.0),
        "eps = 10": joint(10.0),
        "none": NoPrivacy(),
        "eps = 1, delta = 0": JointDP(1.0, 0.0),
        "eps = 10, delta = 0": JointDP(10.0, 0.0),
    }
    rows = [(agent, name) for name in promises for agent in ("lsvi-ucb", "next-state-vi")]
    cases = {(row, w): Case(w, row[0], promises[row[1]], episodes=episodes, seeds=seeds) for row in rows for w in worlds}
    found = measured(list(cases.values()))
    lines = [f"| {title} | " + " | ".join(worlds) + " |", "|---" * (len(worlds) + 1) + "|"]
    lines += [f"| {a}, {name} | " + " | ".join(short(found[cases[(a, name), w]][0]) for w in worlds) + " |" for a, name in rows]
    return lines


def plans_table(seeds: tuple[int, ...], episodes: int) -> list[str]:
    few = seeds[:2]
    rows = [(name, "tight") for name in plans(episodes) if name != "B = K (Remark 7)"] + [("default", "paper")]
    cases = {
        (row, w, e): Case(w, "lsvi-ucb", joint(e), row[0], row[1], episodes, seeds if row[1] == "tight" else few)
        for row in rows
        for w in NAMED
        for e in (1.0, 10.0)
    }
    slow = {w: Case(w, "lsvi-ucb", joint(1.0), "B = K (Remark 7)", "tight", episodes // 10, few) for w in NAMED}
    found = measured([*cases.values(), *slow.values()])
    head = [f"{w}, eps = {e:g}" for w in NAMED for e in (1.0, 10.0)]
    lines = [
        "| LSVI-UCB, batch schedule | " + " | ".join(head) + " | switches | noise on Lambda | noise of a response / range of V |",
        "|---" * (len(head) + 4) + "|",
    ]
    for row in rows:
        cells = [short(found[cases[row, w, e]][0]) for w in NAMED for e in (1.0, 10.0)]
        _, changes, gram, answer = found[cases[row, "latent 0", 1.0]]
        label = row[0] if row[1] == "tight" else "printed constants"
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {changes} | {gram:.3g} | {answer:.3g} |")
    cells = [cell for w in NAMED for cell in (short(found[slow[w]][0]), "-")]
    _, changes, gram, answer = found[slow["latent 0"]]
    lines.append(
        f"| B = K (Remark 7), K = {episodes // 10:,} | " + " | ".join(cells) + f" | {changes} | {gram:.3g} | {answer:.3g} |"
    )
    return [
        *lines,
        "",
        "Switches and noise are those of latent 0 at eps = 1; the noise is the standard deviation at the last switch.",
    ]


def local_table(seeds: tuple[int, ...], episodes: int) -> list[str]:
    cases = {
        (w, e): Case(w, "next-state-vi", LocalDP(e, DELTA), episodes=episodes, seeds=seeds) for w in NAMED for e in (1.0, 10.0)
    }
    found = measured(list(cases.values()))
    lines = [f"| local privacy, K = {episodes:,} | " + " | ".join(NAMED) + " |", "|---" * (len(NAMED) + 1) + "|"]
    cells = {e: [short(found[cases[w, e]][0]) for w in NAMED] for e in (1.0, 10.0)}
    return lines + [f"| next-state-vi, eps = {e:g} | " + " | ".join(row) + " |" for e, row in cells.items()]


def constants() -> list[str]:
    lines = [
        "| printed constants, H = 5, d = 5, K = 1e5 | B | sigma_Lambda | sigma_u | beta | true epsilon | bonus below H from K |",
        "|---|---|---|---|---|---|---|",
    ]
    for request in (JointDP(0.1, DELTA), joint(1.0), joint(10.0), JointDP(1.0, 0.0), NoPrivacy()):
        made = printed_linear(request, LinearSetting(100_000, 5, 5))
        private = not isinstance(request, NoPrivacy)
        true = f"{compose(made.losses(request, 5, 5)).epsilon_at(request.delta):.3g}" if private else "-"
        first = useful_from(request, horizon=5, dimension=5)
        lines.append(
            f"| {request} | {made.batches} | {made.sigma_gram:.3g} | {made.sigma_response:.3g} | {made.beta:.3g} | {true} | {first:.3g} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    seeds, fresh, K = tuple(SEEDS), tuple(FRESH), 100_000
    if arguments.quick:
        seeds, fresh, K = seeds[:2], fresh[:2], 10_000
    sections = [
        agents_table(seeds, K, tuple(NAMED), f"regret / regret of uniform play, seeds {seeds[0]} to {seeds[-1]}"),
        agents_table(fresh, K, tuple(NAMED), f"the same, fresh seeds {fresh[0]} to {fresh[-1]}"),
        plans_table(seeds, K),
        agents_table(seeds[:8], K, tuple(OTHERS), f"other problems, seeds {seeds[0]} to {seeds[:8][-1]}"),
        local_table(seeds[:4], 10 * K),
        constants(),
    ]
    said = (
        "Regret is divided by the regret of uniform play, and shown as mean ± standard error. "
        f"K = {K:,} and delta = 1e-5 unless stated otherwise."
    )
    text = "\n\n".join([said, *("\n".join(lines) for lines in sections)]) + "\n"
    record("Linear MDPs", text, write=arguments.write)


if __name__ == "__main__":
    main()
