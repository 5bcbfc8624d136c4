"""Improvement bounds: how often they are true, how often they show something, and how much.

    python benchmarks/improvement.py [--quick] [--write]

Worlds, behaviour and logs are those of benchmarks/offline.py (narrow is the grid in which one action is taken 94 % of the time; garnet has
five instances in turn). epsilon = 1, delta = 1e-6. People are split in two halves: one learns with pessimism 1, the other one tests, with
Gaussian noise, as a ledger charges it. Bounds are in shares of the gap between the best policy and the behaviour, for returns of 21 steps.
True: the bound is at most the true gain. Shown: the bound is positive. The median is that of the bound, or zero where nothing is shown.
"auto" takes the method that promises more in the model of the learning half.

At the null, a mixture of the best and the worst policy is tested whose true gain is -.0001 of the gap: whatever is shown is false.
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from record import record

from confide import CentralDP
from confide.errors import ConfideWarning
from confide.offline import ModelRelease
from confide.offline.gain_planning import Target
from confide.offline.improvement import chosen_method
from confide.problems import garnet, riverswim
from offline import DELTA, DISCOUNT, GARNETS, STEPS, grid, narrow, plain

PRIVACY = CentralDP(1.0, DELTA)
FIRST = 2000  # seed; nothing was chosen on these, nor on these narrow behaviours


def value(world, policy):
    V = np.zeros(len(world.P))
    for _ in range(STEPS):
        V = (policy * (world.rewards + DISCOUNT * (world.P @ V) * ~world.terminal[:, None])).sum(axis=1)
    return float(world.start @ V)


def extreme(world, sign):
    """The best (sign 1) or the worst (-1) policy for 21 steps, as one for every step, and its value if it may change."""
    V = np.zeros(len(world.P))
    for _ in range(STEPS):
        Q = sign * (world.rewards + DISCOUNT * (world.P @ V) * ~world.terminal[:, None])
        V = sign * Q.max(axis=1)
    return np.eye(Q.shape[1])[Q.argmax(axis=1)], float(world.start @ V)


def halves(world, people, seed):
    learn, test = world.log(people, seed).split(0.5)
    S, A = world.rewards.shape
    made = ModelRelease(states=S, actions=A, discount=DISCOUNT, rewards=world.rewards, terminal=world.terminal)
    return made.release(learn, privacy=PRIVACY, rng=np.random.default_rng([seed, 2])), test


def tested(world, model, test, policy, method, seed):
    """(bound, true gain) in shares of the gap."""
    found = model.improvement(policy, test, method=method, rng=np.random.default_rng([seed, 3]))
    behaviour, full = world.behaviour, getattr(policy, "weights", policy)
    if method == "weights" and hasattr(policy, "mixed"):
        full = policy.mixed(behaviour)  # "as logged" is what was done; for the method "model" it is the saved table
    done = value(world, behaviour)
    gap = extreme(world, 1)[1] - done
    true = value(world, (1 - found.share) * behaviour + found.share * full) - done
    return found.bound / gap, true / gap


def setting(name, worlds, people, runs):
    found = {method: [] for method in ("weights", "model", "auto")}
    scores = []
    for seed in range(FIRST, FIRST + runs):
        world = worlds[seed % len(worlds)]
        model, test = halves(world, people, seed)
        policy = model.plan(1.0)
        scores.append(world.score(policy.mixed(world.behaviour)))
        for method in ("weights", "model"):
            found[method].append(tested(world, model, test, policy, method, seed))
        auto = chosen_method(model, Target(policy.weights, policy.changed), test, PRIVACY)
        found["auto"].append(found[auto][-1])
    cells = [name, f"{people:,}", str(runs), f"{np.mean(scores):.3f}"]
    for pairs in found.values():
        bound, true = np.array(pairs).T
        cells.append(f"{np.mean(bound <= true + 1e-12):.3f} / {np.mean(bound > 0):.2f} / {np.median(np.maximum(bound, 0)):.3f}")
    return f"| {' | '.join(cells)} |"


def null_policy(world):
    """Between the best and the worst policy, .0001 of the gap worse than the behaviour."""
    best, worst = extreme(world, 1), extreme(world, -1)
    done = value(world, world.behaviour)
    aim, low, high = done - 1e-4 * (best[1] - done), 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if value(world, middle * best[0] + (1 - middle) * worst[0]) < aim else (low, middle)
    return low * best[0] + (1 - low) * worst[0]


def null(name, worlds, people, runs):
    cells = [name, f"{people:,}", str(runs)]
    found = {"weights": [], "model": []}
    for seed in range(FIRST + 1000, FIRST + 1000 + runs):
        world = worlds[seed % len(worlds)]
        model, test = halves(world, people, seed)
        for method, pairs in found.items():
            pairs.append(tested(world, model, test, null_policy(world), method, seed))
    for pairs in found.values():
        bound, true = np.array(pairs).T
        cells.append(f"{np.mean((bound > 0) & (bound > true)):.3f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConfideWarning)
    runs = 6 if arguments.quick else 60
    table, river, garnets = grid(), plain(riverswim()), [plain(garnet(seed=seed)) for seed in GARNETS]
    worlds = {"grid": [table], "narrow": [narrow(table, seed) for seed in range(20, 30)], "garnet": garnets, "riverswim": [river]}
    lines = [
        "| world | people | runs | learned | weights: true / shown / median | model | auto |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, some in worlds.items():
        for people in (10**4, 10**5):
            lines.append(setting(name, some, people, runs))
            print(lines[-1], flush=True)
    lines += ["", "| null | people | runs | weights: false | model: false |", "|---|---|---|---|---|"]
    for name, some in worlds.items():
        lines.append(null(name, some, 10**4, runs * 2))
        print(lines[-1], flush=True)
    record("Improvement bounds", "\n".join([__doc__.split("\n\n", 2)[2], *lines]) + "\n", write=arguments.write)


if __name__ == "__main__":
    main()
