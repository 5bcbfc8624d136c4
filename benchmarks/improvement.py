"""Improvement bounds: how often they are true, how often they show something, and how much.

    python benchmarks/improvement.py [--quick] [--learned-rewards] [--write]

Problems, behaviour and logs are those of benchmarks/offline.py (narrow is the grid in which one
action is taken 94 % of the time; garnet has five instances in turn). epsilon = 1, delta = 1e-6.
Users are split in two halves: one learns with pessimism 1, the other one tests, with Gaussian
noise, as a ledger charges it. Bounds are in shares of the gap between the best policy and the
behaviour, for returns of 21 steps. True: the bound is at most the true gain. Shown: the bound is
positive. The median is that of the bound, or zero where nothing is shown. "auto" takes the method
that predicts a larger bound in the model of the learning half.

At the null, a mixture of the best and the worst policy is tested whose true gain is -.0001 of the
gap: whatever is shown is false.
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from record import RESULTS, commit, record

from confide import CentralDP
from confide.errors import ConfideWarning
from confide.offline import ModelRelease
from confide.offline.gain_planning import CandidatePolicy
from confide.offline.improvement_question import chosen_method
from confide.problems import garnet, riverswim
from offline import DELTA, DISCOUNT, GARNETS, STEPS, grid, narrow, plain

PRIVACY = CentralDP(1.0, DELTA)
# Seeds from here on are held out, and so are these narrow behaviours.
FIRST = 2000


def value(problem, policy):
    V = np.zeros(len(problem.P))
    for _ in range(STEPS):
        V = (
            policy * (problem.rewards + DISCOUNT * (problem.P @ V) * ~problem.terminal[:, None])
        ).sum(axis=1)
    return float(problem.start @ V)


def extreme(problem, sign):
    """Return the best policy (sign 1) or the worst one (sign -1) for 21 steps, and its value.

    The policy is the same at every step. The value is that of a policy that may change.
    """
    V = np.zeros(len(problem.P))
    for _ in range(STEPS):
        Q = sign * (problem.rewards + DISCOUNT * (problem.P @ V) * ~problem.terminal[:, None])
        V = sign * Q.max(axis=1)
    return np.eye(Q.shape[1])[Q.argmax(axis=1)], float(problem.start @ V)


def halves(problem, people, seed, *, learned=False):
    learn, test = problem.log(people, seed).split(0.5)
    S, A = problem.rewards.shape
    public_facts = {} if learned else {"rewards": problem.rewards, "terminal": problem.terminal}
    public_facts |= {"ends": learned, "reward_range": (0.0, 1.0)}
    estimator = ModelRelease(states=S, actions=A, discount=DISCOUNT, **public_facts)
    return estimator.release(learn, privacy=PRIVACY, rng=np.random.default_rng([seed, 2])), test


def test_policy(problem, model, test, policy, method, seed):
    """(bound, true gain) in shares of the gap."""
    improvement = model.improvement(
        policy, test, method=method, rng=np.random.default_rng([seed, 3])
    )
    behaviour = problem.behaviour
    full = getattr(policy, "weights", policy)
    if method == "weights" and hasattr(policy, "mixed"):
        # "as logged" is what was done; for the method "model" it is the saved table
        full = policy.mixed(behaviour)
    done = value(problem, behaviour)
    gap = extreme(problem, 1)[1] - done
    true = value(problem, (1 - improvement.share) * behaviour + improvement.share * full) - done
    return improvement.bound / gap, true / gap


def setting(name, problems, people, runs):
    pairs_by_method = {method: [] for method in ("weights", "model", "auto")}
    scores = []
    for seed in range(FIRST, FIRST + runs):
        problem = problems[seed % len(problems)]
        model, test = halves(problem, people, seed)
        policy = model.plan(1.0)
        scores.append(problem.score(policy.mixed(problem.behaviour)))
        for method in ("weights", "model"):
            pairs_by_method[method].append(test_policy(problem, model, test, policy, method, seed))
        auto = chosen_method(model, CandidatePolicy(policy.weights, policy.changed), test, PRIVACY)
        pairs_by_method["auto"].append(pairs_by_method[auto][-1])
    cells = [name, f"{people:,}", str(runs), f"{np.mean(scores):.3f}"]
    for pairs in pairs_by_method.values():
        bound, true = np.array(pairs).T
        cells.append(
            f"{np.mean(bound <= true + 1e-12):.3f} / {np.mean(bound > 0):.2f} / "
            f"{np.median(np.maximum(bound, 0)):.3f}"
        )
    return f"| {' | '.join(cells)} |"


def null_policy(problem):
    """Between the best and the worst policy, .0001 of the gap worse than the behaviour."""
    best = extreme(problem, 1)
    worst = extreme(problem, -1)
    done = value(problem, problem.behaviour)
    aim = done - 1e-4 * (best[1] - done)
    low = 0.0
    high = 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if value(problem, middle * best[0] + (1 - middle) * worst[0]) < aim
            else (low, middle)
        )
    return low * best[0] + (1 - low) * worst[0]


def null(name, problems, people, runs):
    cells = [name, f"{people:,}", str(runs)]
    pairs_by_method = {"weights": [], "model": []}
    for seed in range(FIRST + 1000, FIRST + 1000 + runs):
        problem = problems[seed % len(problems)]
        model, test = halves(problem, people, seed)
        for method, pairs in pairs_by_method.items():
            pairs.append(test_policy(problem, model, test, null_policy(problem), method, seed))
    for pairs in pairs_by_method.values():
        bound, true = np.array(pairs).T
        cells.append(f"{np.mean((bound > 0) & (bound > true)):.3f}")
    return f"| {' | '.join(cells)} |"


LEARNED = """## Learned rewards

The method "model" where rewards and ends are learned from the log as well, on the grid: a lower
value of each row's reward stands for the reward. Columns as above; "false at the null" is of as
many runs of the null policy.
"""


def learned_rewards(people, runs):
    """Return a line: how often the bound of the method "model" is true.

    The policies are learned ones, and the null policy.
    """
    problem = grid()
    pairs = []
    scores = []
    wrong = 0
    for seed in range(2000, 2000 + runs):
        model, test = halves(problem, people, seed, learned=True)
        policy = model.plan(1.0)
        scores.append(problem.score(policy.mixed(problem.behaviour)))
        pairs.append(test_policy(problem, model, test, policy, "model", seed))
        bound, true = test_policy(problem, model, test, null_policy(problem), "model", seed + runs)
        wrong += bound > max(true, 0.0)
    bound, true = np.array(pairs).T
    cells = [f"{people:,}", str(runs), f"{np.mean(scores):.3f}"]
    cells += [
        f"{np.mean(bound <= true + 1e-12):.3f}",
        f"{np.mean(bound > 0):.2f}",
        f"{np.median(np.maximum(bound, 0)):.3f}",
    ]
    return f"| {' | '.join([*cells, f'{wrong / runs:.3f}'])} |"


def measure_learned_rewards(*, quick, write):
    """Its own section at the end of the page, in the place of an earlier one."""
    lines = [
        "| users | runs | learned | true | shown | median | false at the null |",
        f"|{'---|' * 7}",
    ]
    for people, runs in ((2_000, 40), (10_000, 40), (100_000, 20)):
        lines.append(learned_rewards(people, 4 if quick else runs))
        print(lines[-1], flush=True)
    if write:
        page = RESULTS / "improvement.md"
        before = page.read_text().split("\n## Learned rewards")[0].rstrip("\n")
        line = (
            "Made by `python benchmarks/improvement.py --learned-rewards --write` at commit "
            f"{commit()}."
        )
        page.write_text("\n".join([before, "", LEARNED, line, "", *lines]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    parser.add_argument(
        "--learned-rewards", action="store_true", help="only that section of the page"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConfideWarning)
    if options.learned_rewards:
        measure_learned_rewards(quick=options.quick, write=options.write)
        return
    runs = 6 if options.quick else 60
    table = grid()
    river = plain(riverswim())
    garnets = [plain(garnet(seed=seed)) for seed in GARNETS]
    problems = {
        "grid": [table],
        "narrow": [narrow(table, seed) for seed in range(20, 30)],
        "garnet": garnets,
        "riverswim": [river],
    }
    lines = [
        "| problem | users | runs | learned | weights: true / shown / median | model | auto |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, some in problems.items():
        for people in (10**4, 10**5):
            lines.append(setting(name, some, people, runs))
            print(lines[-1], flush=True)
    lines += [
        "",
        "| null | users | runs | weights: false | model: false |",
        "|---|---|---|---|---|",
    ]
    for name, some in problems.items():
        lines.append(null(name, some, 10**4, runs * 2))
        print(lines[-1], flush=True)
    record(
        "Improvement bounds",
        "\n".join([__doc__.split("\n\n", 2)[2], *lines]) + "\n",
        write=options.write,
    )


if __name__ == "__main__":
    main()
