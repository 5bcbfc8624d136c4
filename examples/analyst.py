# %% [markdown]
# # Evaluate a policy from a log, with a privacy budget
#
# Run `python examples/analyst.py [--quick] [--out analyst]`, or run it cell by cell in an editor
# that supports `# %%`. docs/logs/evaluating.md describes it.

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
# A notebook adds arguments of its own, so unknown ones are ignored.
options, _ = parser.parse_known_args()
users = 5_000 if options.quick else 50_000
published = options.out
# Raw data and the budget must never be in the published folder.
temporary_folder = tempfile.TemporaryDirectory(prefix="analyst-")
private_folder = Path(temporary_folder.name)

# %% [markdown]
# ## A log
# We simulate patients in a ward. There are twenty states of health, from death (0) to recovery
# (19). With your own log, start at `confide.logs.open`.

# %%
states = 20
steps = 60
death = 0
recovery = states - 1
one_state_better = np.eye(states)[np.minimum(np.arange(states) + 1, recovery)]
one_state_worse = np.eye(states)[np.maximum(np.arange(states) - 1, death)]
# Transition probabilities [state, next state] of the two actions.
treat = 0.65 * one_state_better + 0.35 * one_state_worse
wait = 0.45 * one_state_better + 0.55 * one_state_worse
rewards = np.zeros((states, 2))
rewards[recovery] = 1.0
ward = TabularMDP(
    np.stack([treat, wait], axis=1),
    rewards,
    start=[0, *[1 / 18] * 18, 0],
    horizon=steps,
    name="ward",
)
# The logged policy treats with probability 0.7, in every step and state.
logged_policy = StochasticPolicy(np.full((steps, states, 2), [0.7, 0.3]))
rng = np.random.default_rng(0)
stays = confide.logs.simulate(ward, logged_policy, users, rng, end=[death, recovery])
log_file = private_folder / "stays.parquet"
confide.logs.write(log_file, stays)
logs = confide.logs.open(log_file, max_trajectories=1, max_steps=steps)
print(logs.check(states=states), "\n")

# %% [markdown]
# ## A plan, before reading the data
# `plan` computes the expected error for each epsilon from public numbers only.

# %%
estimator = CountsAndSums(states=states, return_bound=1.0, visits=states)
for epsilon in (0.25, 1.0, 4.0):
    print(estimator.plan(users=users, privacy=confide.CentralDP(epsilon, 1e-6)), "\n")

# %% [markdown]
# ## A budget, and one release
# The ledger is charged before the log is opened. If you ask for the same release again, it comes
# from the ledger and costs nothing.

# %%
privacy = confide.CentralDP(epsilon=1.0, delta=1e-6)
budget_file = private_folder / "budget.sqlite"
with confide.Ledger.init(budget_file, epsilon=1.2, delta=1e-6) as ledger:
    # Without a seed, the noise is secure.
    estimate = estimator.release(logs, privacy=privacy, ledger=ledger)
    repeated = estimator.release(logs, privacy=privacy, ledger=ledger)
    assert (repeated.values == estimate.values).all()
    # A release with another id is a new one, and the budget does not suffice for it.
    try:
        estimator.release(logs, privacy=privacy, ledger=ledger, id="once more")
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
estimate.save(published)
verify(confide.Certificate.load(published / "certificate.json"))

# %% [markdown]
# ## For the curator only: the true error

# %%
# This release is NOT PRIVATE.
exact = LSW(states=states, return_bound=1.0).release(logs)
visited_states = np.arange(death + 1, recovery)
errors = np.abs(estimate.values - exact.values)[visited_states]
print(f"\nlargest difference to the exact values: {errors.max():.4f} (not for publication)")
file_names = sorted(path.name for path in published.iterdir())
print(f"published: {', '.join(file_names)} in {published}")
# In practice the curator keeps the log and the budget, and both stay private.
temporary_folder.cleanup()
