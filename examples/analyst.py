# %% [markdown]
# # Evaluate a policy from a log, with a privacy budget
#
# `python examples/analyst.py [--quick] [--out analyst]`, or cell by cell in an editor that supports `# %%`. It is described in
# docs/logs/evaluating.md.

# %%
import argparse
import tempfile
from pathlib import Path

import numpy as np

import confide
from confide.audit import verify
from confide.errors import BudgetExceeded
from confide.evaluation import LSW, CountsAndSums
from confide.policy import StochasticPolicy
from confide.problems import TabularMDP

parser = argparse.ArgumentParser(description="Evaluate a policy from a log, with a privacy budget.")
parser.add_argument("--quick", action="store_true", help="fewer users and seeds; takes seconds")
parser.add_argument(
    "--out", type=Path, default=Path("analyst"), help="folder for the published files"
)
options, _ = parser.parse_known_args()  # a notebook adds its own arguments
users = 5_000 if options.quick else 50_000
rehearsal = tempfile.TemporaryDirectory(prefix="analyst-")
# raw data and the budget: never in the published folder
out, kept = options.out, Path(rehearsal.name)

# %% [markdown]
# ## A log
# Simulated patients in a ward, twenty states of health from death (0) to recovery (19). With your own log, start at `confide.logs.open`.

# %%
states, steps = 20, 60
better, worse = np.minimum(np.arange(states) + 1, 19), np.maximum(np.arange(states) - 1, 0)
treat, wait = (
    up * np.eye(states)[better] + (1 - up) * np.eye(states)[worse] for up in (0.65, 0.45)
)
rewards = np.zeros((states, 2))
rewards[19] = 1.0
ward = TabularMDP(
    np.stack([treat, wait], axis=1),
    rewards,
    start=[0, *[1 / 18] * 18, 0],
    horizon=steps,
    name="ward",
)
followed = StochasticPolicy(np.full((steps, states, 2), [0.7, 0.3]))
stays = confide.logs.simulate(ward, followed, users, np.random.default_rng(0), end=[0, 19])
confide.logs.write(kept / "stays.parquet", stays)
logs = confide.logs.open(kept / "stays.parquet", max_trajectories=1, max_steps=steps)
print(logs.check(states=states), "\n")

# %% [markdown]
# ## A plan, before reading the data
# The expected error for each epsilon, from public numbers only.

# %%
estimator = CountsAndSums(states=states, return_bound=1.0, visits=states)
for epsilon in (0.25, 1.0, 4.0):
    print(estimator.plan(users=users, privacy=confide.CentralDP(epsilon, 1e-6)), "\n")

# %% [markdown]
# ## A budget, and one release
# The ledger is charged before the log is opened; the same release is returned from the ledger again, at no cost.

# %%
private = confide.CentralDP(epsilon=1.0, delta=1e-6)
with confide.Ledger.init(kept / "budget.sqlite", epsilon=1.2, delta=1e-6) as ledger:
    # secure noise, without a seed
    estimate = estimator.release(logs, privacy=private, ledger=ledger)
    again = estimator.release(logs, privacy=private, ledger=ledger)
    assert (again.values == estimate.values).all()
    try:
        estimator.release(logs, privacy=private, ledger=ledger, id="once more")
    except BudgetExceeded as error:
        print("refused:", error, "\n")

# %% [markdown]
# ## The published table

# %%
low, high = estimate.interval(0.9)
print("state  value   90 % interval")
for state in range(1, 19, 3):
    print(f"{state:5}  {estimate.values[state]:.3f}   {low[state]:.3f} to {high[state]:.3f}")
print(estimate.guarantee)
estimate.save(out)
verify(confide.Certificate.load(out / "certificate.json"))

# %% [markdown]
# ## For the data holder only: the true error

# %%
exact = LSW(states=states, return_bound=1.0).release(logs)  # NOT PRIVATE
seen = np.arange(1, 19)
print(
    f"\nlargest difference to the exact values: {np.abs(estimate.values - exact.values)[seen].max():.4f} (not for publication)"
)
print(f"published: {', '.join(sorted(path.name for path in out.iterdir()))} in {out}")
# in practice the data holder keeps the log and the budget, and they stay private
rehearsal.cleanup()
