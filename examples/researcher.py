# %% [markdown]
# # Two private learners, and one of your own
#
# `python examples/researcher.py [--quick] [--out researcher]`, or cell by cell in an editor that knows `# %%`. Its page is
# docs/tutorials/researcher.md.

# %%
import argparse
from dataclasses import dataclass
from pathlib import Path

import confide
from confide.agents import UCRLVTR, Calibration, Description, Learner, LikelihoodVI, Round
from confide.mechanisms.sources import NoiseSource
from confide.mixtures.contributions import ValueTargets
from confide.mixtures.planning import optimistic
from confide.mixtures.value_features import reduced
from confide.planners.regression import NO_BONUS, least_squares
from confide.policy import uniform_policy
from confide.privacy import Request
from confide.privacy.bounded import Released
from confide.privatizers import geometric
from confide.problems.linear_mixture import LinearMixturePublic
from confide.report import plot_runs, write_report
from confide.statistics import WeightedRows

parser = argparse.ArgumentParser(description="Two private learners, and one of your own.")
parser.add_argument("--quick", action="store_true", help="small numbers, in seconds")
parser.add_argument("--out", type=Path, default=Path("researcher"), help="the folder of runs, figure and report")
options, _ = parser.parse_known_args()  # a notebook has arguments of its own
users, seeds = (2_000, 1) if options.quick else (100_000, 5)

# %% [markdown]
# ## A world whose optimal value is known, and a promise
# A lock: at each of five steps one hidden action moves right. Regret is exact, because the world knows what every policy is worth.

# %%
problem = confide.problems.lock(seed=0)
private = confide.JointDP(epsilon=1.0, delta=1e-5)
at_random = users * (problem.optimal_value - problem.uniform_value)
print(f"{users:,} users; playing at random loses {at_random:,.0f}\n")

# %% [markdown]
# ## Before any run: what is promised, and how much noise that takes

# %%
tight = UCRLVTR(problem.public, episodes=users, privacy=private)
paper = UCRLVTR(problem.public, episodes=users, privacy=private, calibration="paper")
mine = LikelihoodVI(problem.public, episodes=users, privacy=private)
print(confide.explain(tight, paper, mine), "\n")


# %% [markdown]
# ## An algorithm of your own
# A bound, and a pure function from releases to rounds. A share of the users plays at random, all others the best policy for the estimate.


# %%
@dataclass(frozen=True)
class Planning:
    """Least squares on what was released, no optimism at all."""

    public: LinearMixturePublic
    bound: WeightedRows
    share: float

    def plan(self, released: Released) -> Round:
        public, features = self.public, reduced(self.public.dimension)
        assert public.rewards is not None
        Lambda, u = self.bound.unpack(released.values)
        estimate = least_squares(Lambda, u, noise_std=released.noise.std, simplex=True, coordinates=features)
        best = optimistic(public.kernels, public.rewards, estimate, feature_map=features, width=NO_BONUS)
        random = uniform_policy(public.horizon, public.states, public.actions)
        statistic = ValueTargets(self.bound, features, public.kernels, best.values)
        return Round((random, best.policy), statistic, shares=(self.share, 1 - self.share))

    def describe(self) -> Description:
        return Description("my own", f"greedy on least squares; {self.share:.0%} of the users explore")


class Explorers(Learner):
    """Joint, local or no privacy: whatever is asked for."""

    name = "explorers"

    def __init__(
        self,
        public: LinearMixturePublic,
        *,
        episodes: int,
        privacy: Request,
        noise: NoiseSource | None = None,
        share: float = 0.02,
    ) -> None:
        bound = WeightedRows(public.horizon - 1, public.dimension - 1)
        super().__init__(Calibration(Planning(public, bound, share), geometric(episodes)), privacy=privacy, noise=noise)


# %% [markdown]
# ## Runs
# Each seed is a world, an agent and its noise. An agent learns once, so every run has a new one.

# %%
runs = [
    confide.run(kind(problem.public, episodes=users, privacy=promise), problem, seed=seed)
    for kind in (UCRLVTR, LikelihoodVI, Explorers)
    for promise in (private, confide.NoPrivacy())
    for seed in range(seeds)
]
print(f"{'agent':14} {'promise':55} {'lost':>8}  90 % of the way after")
for run in runs:
    promise = run.guarantee.partition(", replace")[0]
    print(f"{run.agent:14} {promise:55} {run.regret[-1]:8,.0f}  {run.episodes_to(0.9) or 'not yet'}")

# %% [markdown]
# ## What is kept
# Runs as JSON and CSV with their certificates, one figure for a paper, one page for everybody.

# %%
options.out.mkdir(parents=True, exist_ok=True)
for run in runs:
    kind = "none" if run.guarantee.startswith("NO PRIVACY") else "joint"
    run.save(options.out / f"{run.agent}-{kind}-seed-{run.seed}")
plot_runs(runs).savefig(options.out / "regret.svg")
page = write_report(runs, options.out / "report.html", title="Two private learners, and one of ours")
print(f"\n{runs[0].guarantee}\n{page}")
