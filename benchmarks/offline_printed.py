"""DP-APVI with the paper's constants [QiaoWang22] beside the model of `confide.offline`.

    python benchmarks/offline_printed.py [--quick] [--write]

Problems: riverswim with 4 states and 20 steps, and one with 2 states and 3 steps; the behaviour is
uniform and rewards are public. Scores are (V - V_b) / (V* - V_b), V_b the value of the behaviour,
from the true table; three seeds each. "penalty below H": the share of rows (h, s, a) in which the
penalty is less than the largest value. "worth something": the share of steps and states in which an
action is worth more than its penalty; elsewhere the policy takes action 0, which is no choice that
was learned. The model plans with pessimism 1 and discount .99; where it says "as logged", the
behaviour's actions are taken. delta = 1e-6; epsilon is the nominal one.
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from record import record

from confide import CentralDP, NoPrivacy
from confide.errors import ConfideWarning
from confide.logs import in_memory, simulate
from confide.offline import ModelRelease
from confide.policy import StochasticPolicy, uniform_policy
from confide.problems import riverswim

sys.path.append(str(Path(__file__).parent.parent))

from papers.qiao22 import DPAPVI

SEEDS = 3


def line(states, horizon, people, epsilon):
    problem = riverswim(states=states, horizon=horizon)
    rewards = problem.rewards[0]
    behaviour = uniform_policy(horizon, states, 2)
    low = problem.value(behaviour)
    high = problem.optimal_value
    printed = DPAPVI(states=states, actions=2, horizon=horizon, rewards=rewards)
    ours = ModelRelease(
        states=states,
        actions=2,
        discount=0.99,
        transitions=horizon - 1,
        rewards=rewards,
        ends=False,
    )
    privacy = NoPrivacy() if epsilon is None else CentralDP(epsilon, 1e-6)
    results = []
    for seed in range(SEEDS):
        log = in_memory(
            simulate(problem, behaviour, people, np.random.default_rng([seed, 1])),
            max_steps=horizon,
        )
        plan = printed.release(log, privacy=privacy, rng=np.random.default_rng([seed, 2]))
        model = ours.release(log, privacy=privacy, rng=np.random.default_rng([seed, 2])).plan()
        mixed = model.mixed(np.full((states, 2), 0.5))
        other = StochasticPolicy(np.repeat(mixed[None], horizon, axis=0))
        scores = [(problem.value(policy) - low) / (high - low) for policy in (plan.policy, other)]
        results.append([(plan.penalties < horizon).mean(), plan.learned, *scores])
    below, learned, score, model_score = np.mean(results, axis=0)
    setting = printed.setting(CentralDP(1.0, 1e-6) if epsilon is None else privacy)
    cells = [f"{states}, {horizon}", f"{people:,}", "none" if epsilon is None else f"{epsilon:g}"]
    cells += [
        "" if epsilon is None else f"{setting.true_epsilon:.3f}",
        "" if epsilon is None else f"{setting.users_to_start():,}",
    ]
    cells += [f"{below:.2f}", f"{learned:.2f}", f"{score:.3f}", f"{model_score:.3f}"]
    text = f"| {' | '.join(cells)} |"
    print(text, flush=True)
    return text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    # There are warnings that nothing is learned.
    warnings.simplefilter("ignore", ConfideWarning)
    settings = [(4, 20, 10**4, None), (4, 20, 10**4, 1.0), (2, 3, 10**4, None), (2, 3, 10**4, 1.0)]
    if not options.quick:
        settings += [
            (4, 20, 10**6, 1.0),
            (4, 20, 10**6, 10.0),
            (2, 3, 10**5, 1.0),
            (2, 3, 10**6, 1.0),
            (2, 3, 5 * 10**6, 1.0),
        ]
    heads = [
        "states, steps",
        "users",
        "epsilon",
        "true epsilon",
        "users to start",
        "penalty below H",
        "worth something",
    ]
    heads += ["score, DP-APVI", "score, model"]
    top = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    lines = [line(*each) for each in settings]
    record(
        "DP-APVI with the paper's constants",
        "\n".join([__doc__.split("\n\n", 2)[2], *top, *lines]) + "\n",
        write=options.write,
    )


if __name__ == "__main__":
    main()
