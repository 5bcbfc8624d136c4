# %% [markdown]
# # Compare two private learners with your own
#
# `python examples/researcher.py [--quick] [--out researcher]`, or cell by cell in an editor that supports `# %%`. It is described in
# docs/tutorials/researcher.md.

# %%
import argparse
from dataclasses import dataclass
from pathlib import Path

import confide
from confide.agents import UCRLVTR, Calibration, Description, Learner, LikelihoodVI, Round
from confide.identity import Identity
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
from confide.statistics import WeightedRows

parser = argparse.ArgumentParser(description="Compare two private learners with your own.")
parser.add_argument("--quick", action="store_true", help="fewer users and seeds; takes seconds")
parser.add_argument(
    "--out", type=Path, default=Path("researcher"), help="folder for runs, figure and report"
)
options, _ = parser.parse_known_args()  # a notebook adds its own arguments
users, seeds = (2_000, 1) if options.quick else (100_000, 5)

# %% [markdown]
# ## A problem whose optimal value is known, and a privacy request
# A lock: at each of five steps one hidden action moves right. Regret is exact, because the value of every policy is known.

# %%
problem = confide.problems.lock(seed=0)
private = confide.JointDP(epsilon=1.0, delta=1e-5)
at_random = users * (problem.optimal_value - problem.uniform_value)
print(f"{users:,} users; the regret of uniform play is {at_random:,.0f}\n")

# %% [markdown]
# ## Before a run: the guarantee, and how much noise it needs

# %%
tight = UCRLVTR(problem.public, episodes=users, privacy=private)
paper = UCRLVTR(problem.public, episodes=users, privacy=private, calibration="paper")
mine = LikelihoodVI(problem.public, episodes=users, privacy=private)
print(confide.explain(tight, paper, mine), "\n")


# %% [markdown]
# ## Your own algorithm
# A bound, and a pure function from releases to rounds. A share of the users plays at random, all others the best policy for the estimate.


# %%
@dataclass(frozen=True)
class Planning:
    """Least squares on released statistics, without optimism."""

    public: LinearMixturePublic
    bound: WeightedRows
    share: float

    def plan(self, released: Released) -> Round:
        public, features = self.public, reduced(self.public.dimension)
        assert public.rewards is not None
        Lambda, u = self.bound.unpack(released.values)
        estimate = least_squares(
            Lambda, u, noise_std=released.noise.std, simplex=True, coordinates=features
        )
        best = optimistic(
            public.kernels, public.rewards, estimate, feature_map=features, width=NO_BONUS
        )
        random = uniform_policy(public.horizon, public.states, public.actions)
        statistic = ValueTargets(self.bound, features, public.kernels, best.values)
        return Round((random, best.policy), statistic, shares=(self.share, 1 - self.share))

    def describe(self) -> Description:
        return Description(
            "custom", f"greedy on least squares;  {self.share:.0%} of the users explore"
        )


class Explorers(Learner):
    """Joint, local or no privacy, as requested."""

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
        super().__init__(
            Calibration(Planning(public, bound, share), geometric(episodes)),
            privacy=privacy,
            identity=Identity("explorers", 1, public=public, share=share),
            noise=noise,
        )


# %% [markdown]
# ## Runs
# A seed determines the users, the agent and its noise. An agent learns once, so every run needs a new agent.

# %%
runs = [
    confide.run(kind(problem.public, episodes=users, privacy=promise), problem, seed=seed)
    for kind in (UCRLVTR, LikelihoodVI, Explorers)
    for promise in (private, confide.NoPrivacy())
    for seed in range(seeds)
]
print(f"{'agent':14} {'guarantee':55} {'regret':>8}  users to 90 % of optimal")
for run in runs:
    print(
        f"{run.agent:14} {run.guarantee.request!s:55} {run.regret[-1]:8,.0f}  {run.episodes_to(0.9) or 'never'}"
    )

# %% [markdown]
# ## Results
# Runs as JSON and CSV with their certificates, a figure for a paper, and a report.

# %%
options.out.mkdir(parents=True, exist_ok=True)
for run in runs:
    run.save(options.out / f"{run.agent}-{run.guarantee.trust.value}-seed-{run.seed}")
comparison = confide.Comparison.of_runs(runs, name="Two private learners and a custom one")
comparison.plot(["regret", "value"]).savefig(options.out / "regret.svg")
page = comparison.report(options.out / "report.html")
print(f"\n{runs[0].guarantee}\n{page}")
