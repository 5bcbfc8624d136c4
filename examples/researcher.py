# %% [markdown]
# # Compare two private agents with your own
#
# Run `python examples/researcher.py [--quick] [--out researcher]`, or run it cell by cell in an
# editor that supports `# %%`. docs/tutorials/researcher.md describes it.

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

parser = argparse.ArgumentParser(description="Compare two private agents with your own.")
parser.add_argument("--quick", action="store_true", help="fewer users and seeds; takes seconds")
parser.add_argument(
    "--out", type=Path, default=Path("researcher"), help="folder for runs, figure and report"
)
# A notebook adds arguments of its own, so unknown ones are ignored.
options, _ = parser.parse_known_args()
users = 2_000 if options.quick else 100_000
seeds = 1 if options.quick else 5

# %% [markdown]
# ## A problem whose optimal value is known, and a privacy request
# The problem is a lock: at each of five steps one hidden action moves right. Regret is exact,
# because the value of every policy is known.

# %%
problem = confide.problems.lock(seed=0)
privacy = confide.JointDP(epsilon=1.0, delta=1e-5)
uniform_regret = users * (problem.optimal_value - problem.uniform_value)
print(f"{users:,} users; the regret of uniform play is {uniform_regret:,.0f}\n")

# %% [markdown]
# ## Before a run: the guarantee, and how much noise it needs

# %%
tight = UCRLVTR(problem.public, episodes=users, privacy=privacy)
paper = UCRLVTR(problem.public, episodes=users, privacy=privacy, calibration="paper")
likelihood = LikelihoodVI(problem.public, episodes=users, privacy=privacy)
print(confide.explain(tight, paper, likelihood), "\n")


# %% [markdown]
# ## Your own algorithm
# An agent needs a bound on what a user contributes, and a pure function from releases to rounds.
# Here a share of the users plays at random. All others follow the best policy for the estimate.


# %%
@dataclass(frozen=True)
class Planning:
    """Least squares on released statistics, without optimism."""

    public: LinearMixturePublic
    bound: WeightedRows
    # The share of the users who play at random.
    explorer_share: float

    def plan(self, released: Released) -> Round:
        public = self.public
        features = reduced(public.dimension)
        assert public.rewards is not None
        gram, responses = self.bound.unpack(released.values)
        estimate = least_squares(
            gram, responses, noise_std=released.noise.std, simplex=True, coordinates=features
        )
        best = optimistic(
            public.kernels, public.rewards, estimate, feature_map=features, width=NO_BONUS
        )
        explorer = uniform_policy(public.horizon, public.states, public.actions)
        statistic = ValueTargets(self.bound, features, public.kernels, best.values)
        shares = (self.explorer_share, 1 - self.explorer_share)
        return Round((explorer, best.policy), statistic, shares=shares)

    def describe(self) -> Description:
        return Description(
            "custom", f"greedy on least squares; {self.explorer_share:.0%} of the users explore"
        )


class Explorers(Learner):
    """An agent of your own. It has joint, local or no privacy, as requested."""

    name = "explorers"

    def __init__(
        self,
        public: LinearMixturePublic,
        *,
        episodes: int,
        privacy: Request,
        noise: NoiseSource | None = None,
        explorer_share: float = 0.02,
    ) -> None:
        bound = WeightedRows(public.horizon - 1, public.dimension - 1)
        planning = Planning(public, bound, explorer_share)
        # Saved states and ledger ids depend on the identity, so it names every option.
        identity = Identity("explorers", 1, public=public, explorer_share=explorer_share)
        super().__init__(
            Calibration(planning, geometric(episodes)),
            privacy=privacy,
            identity=identity,
            noise=noise,
        )


# %% [markdown]
# ## Runs
# A seed determines the users, the agent and its noise. An agent learns once, so every run needs a
# new agent.

# %%
runs = []
for agent_class in (UCRLVTR, LikelihoodVI, Explorers):
    for request in (privacy, confide.NoPrivacy()):
        for seed in range(seeds):
            agent = agent_class(problem.public, episodes=users, privacy=request)
            runs.append(confide.run(agent, problem, seed=seed))
print(f"{'agent':14} {'guarantee':55} {'regret':>8}  users to 90 % of optimal")
for run in runs:
    users_needed = run.episodes_to(0.9) or "never"
    print(f"{run.agent:14} {run.guarantee.request!s:55} {run.regret[-1]:8,.0f}  {users_needed}")

# %% [markdown]
# ## Results
# We save the runs as JSON and CSV with their certificates, a figure for a paper, and a report.

# %%
options.out.mkdir(parents=True, exist_ok=True)
for run in runs:
    run.save(options.out / f"{run.agent}-{run.guarantee.trust.value}-seed-{run.seed}")
comparison = confide.Comparison.of_runs(runs, name="Two private agents and a custom one")
comparison.plot(["regret", "value"]).savefig(options.out / "regret.svg")
page = comparison.report(options.out / "report.html")
print(f"\n{runs[0].guarantee}\n{page}")
