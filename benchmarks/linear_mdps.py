"""Linear MDPs with every plan of batches and every privacy request.

    python benchmarks/linear_mdps.py [--quick] [--write]

K = 1e5 and delta = 1e-5. Regret is relative to uniform play. --quick takes two seeds of each row
and a tenth of the users. With --write the tables go to benchmarks/results/linear_mdps.md.
"""

import argparse
from dataclasses import replace

import numpy as np
from cases import DELTA, Case, Sample, measure_cases, save_problem
from record import record

from confide.linear_mdps.batches import adaptive, growing, one_by_one, static
from confide.linear_mdps.printed import LinearSetting, printed_linear, useful_from
from confide.privacy.loss import compose
from confide.privacy.request import JointDP, LocalDP, NoPrivacy, Request
from confide.problems import latent, one_hot
from confide.runs.runner import run
from confide.runs.spec import Named

SEEDS = range(16)
FRESH = range(100, 116)
NAMED = {"latent 0": ("latent", 0), "latent 1": ("latent", 1), "one-hot": ("one-hot", 0)}
MADE = {
    "latent 0, S=40 d=10": lambda: latent(0, states=40, dimension=10),
    "one-hot, S=8 H=9": lambda: one_hot(states=8, horizon=9),
}
MORE = {f"latent {seed}": ("latent", seed) for seed in (2, 3, 4, 5)}
PROBLEMS = NAMED | MORE
OTHERS = (*MORE, *MADE)


def on(
    problem: str,
    agent: str,
    privacy: Request,
    plan: str = "default",
    calibration: str = "tight",
    **more: object,
) -> Case:
    """A case on a problem of these tables."""
    name, instance = (
        (save_problem(problem, MADE[problem]()), 0) if problem in MADE else PROBLEMS[problem]
    )
    case = Case(name, agent, privacy, instance=instance, **more)
    options = (
        () if plan == "default" else (("schedule", Named(plan, plans(case.episodes)[plan]())),)
    )
    return replace(
        case,
        options=(*options, *((("calibration", calibration),) if calibration != "tight" else ())),
    )


def plans(episodes: int) -> dict:
    return {
        "growing x1.5": lambda: growing(episodes, first=196, ratio=1.5),
        "static, 28 batches (the paper's B)": lambda: static(episodes, 28),
        "adaptive, at most 20": lambda: adaptive(episodes),
        "B = K (Remark 7)": lambda: one_by_one(episodes),
    }


def looked_at(case: Case) -> tuple[int, float, float]:
    """Run a case once more, for numbers that a result does not have.

    These are the changes of policy, and the noise on Lambda and on a response of unit range.
    """
    seed = case.seeds[-1]
    agent = case.spec.ready(case.loaded_problem, seed)
    run(agent, case.loaded_problem, seed=seed)
    questions = (
        agent.released()
        .values[agent.algorithm.bound.size : -1]
        .reshape(agent.algorithm.responses, -1)
    )
    return agent.switches, agent.noise_level.std, float(questions[0, -1])


def short(sample: Sample) -> str:
    """Regret relative to uniform play's."""
    values = sample.regret / sample.nothing
    return f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def joint(epsilon: float) -> Request:
    return JointDP(epsilon, DELTA)


def agents_table(
    seeds: tuple[int, ...], episodes: int, problems: tuple[str, ...], title: str
) -> list[str]:
    requests = {
        "eps = 1": joint(1.0),
        "eps = 10": joint(10.0),
        "none": NoPrivacy(),
        "eps = 1, delta = 0": JointDP(1.0, 0.0),
        "eps = 10, delta = 0": JointDP(10.0, 0.0),
    }
    rows = [(agent, name) for name in requests for agent in ("lsvi-ucb", "next-state-vi")]
    cases = {
        (row, w): on(w, row[0], requests[row[1]], episodes=episodes, seeds=seeds)
        for row in rows
        for w in problems
    }
    samples = measure_cases(list(cases.values()))
    lines = [f"| {title} | " + " | ".join(problems) + " |", "|---" * (len(problems) + 1) + "|"]
    lines += [
        f"| {a}, {name} | "
        + " | ".join(short(samples[cases[(a, name), w]]) for w in problems)
        + " |"
        for a, name in rows
    ]
    return lines


def plans_table(seeds: tuple[int, ...], episodes: int) -> list[str]:
    few = seeds[:2]
    tried = [name for name in plans(episodes) if name != "B = K (Remark 7)"]
    rows = [(name, "tight") for name in ("default", *tried)] + [("default", "paper")]
    cases = {
        (row, w, e): on(
            w,
            "lsvi-ucb",
            joint(e),
            *row,
            episodes=episodes,
            seeds=seeds if row[1] == "tight" else few,
        )
        for row in rows
        for w in NAMED
        for e in (1.0, 10.0)
    }
    slow = {
        w: on(w, "lsvi-ucb", joint(1.0), "B = K (Remark 7)", episodes=episodes // 10, seeds=few)
        for w in NAMED
    }
    samples = measure_cases([*cases.values(), *slow.values()])
    head = [f"{w}, eps = {e:g}" for w in NAMED for e in (1.0, 10.0)]
    lines = [
        "| LSVI-UCB, batch schedule | "
        + " | ".join(head)
        + " | switches | noise on Lambda | noise of a response / range of V |",
        "|---" * (len(head) + 4) + "|",
    ]
    for row in rows:
        cells = [short(samples[cases[row, w, e]]) for w in NAMED for e in (1.0, 10.0)]
        changes, gram, answer = looked_at(cases[row, "latent 0", 1.0])
        label = row[0] if row[1] == "tight" else "the paper's constants"
        lines.append(
            f"| {label} | " + " | ".join(cells) + f" | {changes} | {gram:.3g} | {answer:.3g} |"
        )
    cells = [cell for w in NAMED for cell in (short(samples[slow[w]]), "-")]
    changes, gram, answer = looked_at(slow["latent 0"])
    lines.append(
        f"| B = K (Remark 7), K = {episodes // 10:,} | "
        + " | ".join(cells)
        + f" | {changes} | {gram:.3g} | {answer:.3g} |"
    )
    return [
        *lines,
        "",
        (
            "Switches and noise are those of latent 0 at epsilon = 1. "
            "The noise is the standard deviation at the last switch."
        ),
    ]


def local_table(seeds: tuple[int, ...], episodes: int) -> list[str]:
    cases = {
        (w, e): on(w, "next-state-vi", LocalDP(e, DELTA), episodes=episodes, seeds=seeds)
        for w in NAMED
        for e in (1.0, 10.0)
    }
    samples = measure_cases(list(cases.values()))
    lines = [
        f"| local privacy, K = {episodes:,} | " + " | ".join(NAMED) + " |",
        "|---" * (len(NAMED) + 1) + "|",
    ]
    cells = {e: [short(samples[cases[w, e]]) for w in NAMED] for e in (1.0, 10.0)}
    return lines + [
        f"| next-state-vi, eps = {e:g} | " + " | ".join(row) + " |" for e, row in cells.items()
    ]


def constants() -> list[str]:
    lines = [
        (
            "| the paper's constants, H = 5, d = 5, K = 1e5 | B | sigma_Lambda | sigma_u | beta | "
            "true epsilon | bonus below H from K |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    for request in (JointDP(0.1, DELTA), joint(1.0), joint(10.0), JointDP(1.0, 0.0), NoPrivacy()):
        printed = printed_linear(request, LinearSetting(100_000, 5, 5))
        private = not isinstance(request, NoPrivacy)
        true = (
            f"{compose(printed.losses(request, 5, 5)).epsilon_at(request.delta):.3g}"
            if private
            else "-"
        )
        first = useful_from(request, horizon=5, dimension=5)
        lines.append(
            f"| {request} | {printed.batches} | {printed.sigma_gram:.3g} | "
            f"{printed.sigma_response:.3g} | "
            f"{printed.beta:.3g} | {true} | {first:.3g} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    seeds = tuple(SEEDS)
    fresh = tuple(FRESH)
    K = 100_000
    if options.quick:
        seeds, fresh, K = seeds[:2], fresh[:2], 10_000
    sections = [
        agents_table(
            seeds,
            K,
            tuple(NAMED),
            f"regret / regret of uniform play, seeds {seeds[0]} to {seeds[-1]}",
        ),
        agents_table(fresh, K, tuple(NAMED), f"the same, fresh seeds {fresh[0]} to {fresh[-1]}"),
        plans_table(seeds, K),
        agents_table(
            seeds[:8], K, tuple(OTHERS), f"other problems, seeds {seeds[0]} to {seeds[:8][-1]}"
        ),
        local_table(seeds[:4], 10 * K),
        constants(),
    ]
    about = (
        "Regret is divided by the regret of uniform play, and shown as mean ± standard error. "
        f"K = {K:,} and delta = 1e-5 unless stated otherwise."
    )
    text = "\n\n".join([about, *("\n".join(lines) for lines in sections)]) + "\n"
    record("Linear MDPs", text, write=options.write)


if __name__ == "__main__":
    main()
