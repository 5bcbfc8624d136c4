"""The next batch of users of a linear system: an estimate from all batches, safe gains with
excitation, and limits for clipping.

All of it is post-processing of releases, so it may be changed without an effect on privacy. What it
remembers between batches is declared in `experiment_planning.py`. The order in which random numbers
are drawn is a part of the results.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.control.experiment_planning import (
    experiments_in,
    last_estimate,
    recall_experiments,
)
from confide.control.gain_planning import warn_of_gain_bound
from confide.control.identification_planning import (
    EXCESS_ALLOWED,
    SAFE_SHARE,
    Costs,
    Experiment,
    ExplorationBudget,
    SystemEstimate,
    clipping_limits,
    draw_scenarios,
    excitation_gains,
    identify,
    input_scales,
    prior,
    safe_gains,
    sampled_gains,
    with_exploration,
)
from confide.planners.history import History
from confide.planners.public_round import PublicRound
from confide.policy import LinearPolicy
from confide.privacy.bounded import Released
from confide.privatizers.schedule import Schedule

Array = npt.NDArray[np.float64]
# How many gains for excitation a batch has. Each comes with its opposite. No page compares other
# numbers.
EXCITATION_PAIRS = 3
POLICIES = 2 * EXCITATION_PAIRS
# Without privacy, limits for clipping are so many times as far out: a clip would only lose data.
EXACT_LIMITS = 64


@dataclass(frozen=True, slots=True, eq=False)
class ControlProblem:
    """All that is public before the first user."""

    costs: Costs
    inputs: int
    states: int
    # The weight of second moments in a release. 0: they are not released.
    weight: float
    # How many systems are drawn for a batch. 0: the mean is used (certainty equivalence).
    samples: int
    # The spread of the draws, in standard deviations of the posterior.
    spread: float
    # After how many users each release comes.
    times: tuple[int, ...]
    # Whether the system is excited at all.
    explores: bool
    # Without privacy: limits are far out, and second moments known.
    exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class ControlRound:
    """A round, and what its users' residuals are made of: the guess of Theta [p, n], limits for
    clipping, and scales [p].
    """

    public: PublicRound
    guess: Array
    clip: float
    cap: float
    scales: Array


def plan_batch(problem: ControlProblem, released: Released) -> ControlRound:
    """Decide the next batch from everything released so far."""
    costs = problem.costs
    history = _recall_history(problem, released)
    experiments = experiments_in(history)
    rng = np.random.default_rng([int(history["seed"]), released.generation])
    estimate = prior(costs)
    signal = None
    # Before anything is known, the open loop (u = 0) is played.
    gains = np.zeros((POLICIES, costs.horizon, problem.inputs, problem.states))
    if experiments:
        estimate, information = identify(experiments, last_estimate(history), costs, rng)
        signal = float(1 / np.sqrt(np.diag(estimate.covariance)).mean())
        if problem.explores:
            conservative = information.conservative(costs)
            gains = choose_gains(problem, experiments, estimate, conservative, released, rng)
    scales = input_scales(gains)
    clip, cap, kept, lost = clipping_limits(
        estimate, gains, scales, costs, rng, capped=problem.weight > 0
    )
    if problem.exact:
        clip = EXACT_LIMITS * clip
        cap = EXACT_LIMITS * cap
        kept = 1.0
        lost = 0.0
    # The entries that begin with "open_" belong to the batch that is planned here.
    history = history.remember_release(released).replace(
        open_guess=estimate.mean,
        open_covariance=estimate.covariance,
        open_gains=gains,
        open_scales=scales,
        open_clip=np.array(clip),
        open_cap=np.array(cap),
        open_kept=np.array(kept),
        open_lost=np.array(lost),
        total=np.array(released.users),
    )
    different_gains = gains[:1] if (gains == gains[0]).all() else gains
    policies = tuple(LinearPolicy(policy_gains) for policy_gains in different_gains)
    public = PublicRound(policies, history.arrays, signal)
    return ControlRound(public, estimate.mean, clip, cap, scales)


def _recall_history(problem: ControlProblem, released: Released) -> History:
    """All batches so far, the one that the release has just closed included."""
    sizes = {
        "policy": POLICIES,
        "step": problem.costs.horizon,
        "input": problem.inputs,
        "state": problem.states,
        "row": problem.states + problem.inputs,
    }
    return recall_experiments(released, sizes, weight=problem.weight, batches=len(problem.times))


def choose_gains(
    problem: ControlProblem,
    experiments: list[Experiment],
    estimate: SystemEstimate,
    conservative: SystemEstimate,
    released: Released,
    rng: np.random.Generator,
) -> Array:
    """Gains for the next batch: those of the conservative estimate, as far as they are safe, and
    excitation, as far as it can be afforded whatever B may be.
    """
    costs = problem.costs
    times = problem.times
    scenarios = draw_scenarios(estimate, costs, rng)
    cautious_scenarios = draw_scenarios(conservative, costs, rng)
    warn_of_gain_bound(scenarios.share_above_gain_bound() >= SAFE_SHARE, costs.gain_bound)
    safe = safe_gains(conservative, cautious_scenarios)
    if problem.samples:
        gains = sampled_gains(
            conservative, cautious_scenarios, safe, problem.samples, problem.spread, rng
        )
    else:
        gains = np.tile(safe, (POLICIES, 1, 1, 1))
    users = Schedule(times).size(released.generation)
    if users <= 0:
        # Everybody was served.
        return gains
    spent_by_batch = [
        experiment.users * scenarios.excess(experiment.gains).mean(axis=1)
        for experiment in experiments
    ]
    # All batches together may stake a small share of what the users after them could save.
    users_after = times[-1] - released.users - users
    budget = ExplorationBudget(
        spent=np.sum(spent_by_batch, axis=0),
        served=released.users,
        users=users,
        stake=EXCESS_ALLOWED / len(times) * users_after,
    )
    excitation = excitation_gains(costs, EXCITATION_PAIRS, rng)
    return with_exploration(gains, excitation, scenarios, budget)
