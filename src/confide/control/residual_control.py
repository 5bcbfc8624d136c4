"""Adaptive control of linear systems from residuals: what Thompson sampling and certainty equivalence share. Privacy is proved.

Users come in leaves: first some who do nothing (u = 0), which teaches A and costs nothing more, then some who play small gains of
opposite signs, which teaches B, then leaves that grow by half. Each leaf is released on its own, around the best guess so far, clipped at
what such users are expected to send: so clips, and the noise with them, shrink as guesses get better. How large the small gains are is
decided by what they may cost; as long as something is to be gained they go on, on top of what is known to be good.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.control.contributions import ResidualRows, Residuals
from confide.control.posterior_planning import (
    ALLOWED,
    Account,
    Belief,
    Costs,
    Leaf,
    explored,
    exploring_gains,
    jury,
    limits,
    posterior,
    prior,
    safe_gains,
    sampled_gains,
    scales_for,
)
from confide.errors import InvalidParameter
from confide.learning.arguments import check_asked, choose_schedule
from confide.learning.learner import Learner, Round
from confide.mechanisms.additive import additive_noise
from confide.mechanisms.counters import Exact, Leaves
from confide.mechanisms.sources import NoiseSource
from confide.planners.visits import Memory
from confide.policy import LinearPolicy
from confide.privacy.bounded import Released
from confide.privacy.loss import loss_for
from confide.privacy.request import LocalDP, NoPrivacy, Relation, Request
from confide.privatizers import Schedule
from confide.problems.lq import LQPublic

Array = npt.NDArray[np.float64]
WEIGHT = 0.3 * math.sqrt(2)  # of second moments beside residuals
PAIRS = 3  # of exploring gains
POLICIES = 2 * PAIRS  # per leaf
REACH, FAR = 2.0, 100.0  # steps count up to this sum of ||x||^2: with privacy, where far states need a large clip, and without
WORTH = 40  # with fewer times as many users as exploring takes, nobody explores: it would cost more than it brings
MOST = 128  # releases: time and memory grow with their square, and what devices download with their number


@dataclass(frozen=True, slots=True, eq=False)
class ResidualControl:
    """Between two releases: a posterior from all leaves, gains for the next one, and what its users will be clipped at."""

    costs: Costs
    bound: ResidualRows
    samples: int  # policies per leaf: 0 for certainty equivalence
    spread: float  # of the samples, in standard deviations of the posterior
    times: tuple[int, ...]  # of releases
    tries: bool  # whether any inputs are tried at all
    exact: bool  # without privacy: limits are far out, and second moments known

    def plan(self, released: Released) -> Round:
        H, d, n = self.costs.horizon, self.bound.inputs, self.bound.states
        seed = released.memory["seed"]
        leaves = self._recalled(released)
        rng = np.random.default_rng([int(seed), released.generation])
        believed = prior(self.costs)
        if leaves:
            before = Belief(released.memory["guess"], released.memory["believed"])
            believed, evidence = posterior(leaves, before, self.costs, rng)
        gains = np.zeros((POLICIES, H, d, n))
        if self.tries and leaves:
            gains = self._chosen(leaves, believed, evidence.sceptical(self.costs), released, rng)
        scales = scales_for(gains)
        clip, cap, kept, lost = limits(believed, gains, scales, self.costs, rng)
        if self.exact:
            clip, cap, kept, lost = 64 * clip, 64 * cap, 1.0, 0.0
        statistic = Residuals(self.bound, believed.mean, clip, cap, self.costs.reach, scales)
        different = gains[:1] if (gains == gains[0]).all() else gains
        policies = tuple(LinearPolicy(each) for each in different)
        signal = float(1 / np.sqrt(np.diag(believed.covariance)).mean()) if leaves else None
        kept_of = _remembered(leaves, believed, gains, np.array([clip, cap, kept, lost]), scales, released)
        return Round(policies, statistic, {"seed": seed, **kept_of}, signal)

    def _chosen(
        self, leaves: list[Leaf], believed: Belief, sceptical: Belief, released: Released, rng: np.random.Generator
    ) -> Array:
        """Gains for the next leaf: those of the sceptical belief as far as its jury finds them harmless, and inputs to learn from, as far
        as they can be afforded whatever B may be."""
        judges, sceptics = jury(believed, self.costs, rng), jury(sceptical, self.costs, rng)
        safe = safe_gains(sceptical, sceptics)
        if self.samples:
            gains = sampled_gains(sceptical, sceptics, safe, self.samples, self.spread, rng)
        else:
            gains = np.tile(safe, (POLICIES, 1, 1, 1))
        served, generation = released.users, released.generation
        users = self.times[generation] - served if generation < len(self.times) else 0
        if users <= 0:  # everybody was served
            return gains
        spent = np.sum([leaf.users * judges.excess(leaf.gains).mean(axis=1) for leaf in leaves], axis=0)
        stake = ALLOWED / len(self.times) * (self.times[-1] - served - users)
        return explored(gains, exploring_gains(self.costs, PAIRS, rng), judges, Account(spent, served, users, stake))

    def _recalled(self, released: Released) -> list[Leaf]:
        """All leaves so far: those that were remembered, and the one that the release has just closed."""
        memory = released.memory
        if set(memory) == {"seed"}:
            return []
        self._check(memory, released.users)
        leaves = [
            Leaf(
                S, G, float(stds[0]), float(stds[1]), guess, gains, float(stds[2]), float(stds[3]), float(stds[4]), before, scales
            )
            for S, G, stds, guess, gains, before, scales in zip(
                *(memory[name] for name in ("sums", "residuals", "stds", "guesses", "gains", "before", "scales")), strict=True
            )
        ]
        clip, cap, kept, lost = memory["limits"]
        scales = memory["scaled"]
        S, G = self.bound.unpack(released.values - memory["prefix"])
        std = math.sqrt(max(released.noise.std**2 - float(memory["reached"][0]) ** 2, 0.0))  # of this leaf alone
        users = released.users - float(memory["reached"][1])
        this = Leaf(
            cap * S / np.outer(scales, scales),
            clip * G / scales[:, None],
            cap * std / self.bound.weight,
            clip * std,
            memory["guess"],
            memory["playing"],
            users,
            float(kept),
            float(lost),
            memory["believed"],
            scales,
        )
        return [*leaves, this]

    def _check(self, memory: Memory, users: int) -> None:
        """What a server says of earlier leaves, on a device: compiled loops look things up by it, so nothing in it is taken on faith."""
        p, n, t = self.bound.dimension, self.bound.states, len(memory.get("stds", ()))
        gains = (POLICIES, self.costs.horizon, self.bound.inputs, n)
        shapes: dict[str, tuple[int, ...]] = {
            "sums": (t, p, p),
            "residuals": (t, p, n),
            "stds": (t, 5),
            "guesses": (t, p, n),
            "gains": (t, *gains),
            "before": (t, p, p),
            "scales": (t, p),
            "scaled": (p,),
            "guess": (p, n),
            "playing": gains,
            "believed": (p, p),
            "limits": (4,),
            "prefix": (self.bound.size,),
            "reached": (2,),
        }
        fits = (
            set(shapes) <= set(memory)
            and t < len(self.times)
            and all(memory[name].shape == shape for name, shape in shapes.items())
        )
        fits = fits and all(memory[name].dtype == np.float64 and np.isfinite(memory[name]).all() for name in shapes)
        fits = fits and all((memory[name] > 0).all() for name in ("scales", "scaled"))
        if not fits or (memory["limits"][:3] <= 0).any() or (memory["stds"] < 0).any() or not 0 <= memory["reached"][1] <= users:
            raise InvalidParameter("the memory of earlier leaves does not fit this problem")

    def describe(self) -> dict[str, str]:
        kind = f"{self.samples} samples, {self.spread:g} x the posterior's standard deviation" if self.samples else "its mean"
        kind += ", and inputs to learn from where they can be afforded" if self.tries else ", and nobody tries inputs"
        return {"calibration": "tight", "planning": f"cautious Riccati gains for a posterior of the dynamics: {kind}"}


def _remembered(
    leaves: list[Leaf], believed: Belief, gains: Array, chosen: Array, scales: Array, released: Released
) -> dict[str, npt.NDArray[np.float64]]:
    p, n = believed.mean.shape
    g = gains.shape
    return {
        "sums": np.array([leaf.sums for leaf in leaves]).reshape(-1, p, p),
        "residuals": np.array([leaf.residuals for leaf in leaves]).reshape(-1, p, n),
        "stds": np.array([[leaf.sums_std, leaf.std, leaf.users, leaf.kept, leaf.lost] for leaf in leaves]).reshape(-1, 5),
        "guesses": np.array([leaf.guess for leaf in leaves]).reshape(-1, p, n),
        "gains": np.array([leaf.gains for leaf in leaves]).reshape(-1, *g),
        "before": np.array([leaf.before for leaf in leaves]).reshape(-1, p, p),
        "scales": np.array([leaf.scales for leaf in leaves]).reshape(-1, p),
        "scaled": scales,
        "guess": believed.mean,
        "playing": gains,
        "believed": believed.covariance,
        "limits": chosen,
        "prefix": released.values,
        "reached": np.array([released.noise.std, float(released.users)]),
    }


def control_schedule(bound: ResidualRows, privacy: Request, episodes: int, *, steerable: bool = True) -> Schedule:
    """Leaves of n_0 and n_1 users, then half as many more each time; one leaf where exploring would not be worth it."""
    n, p = bound.states, bound.dimension
    if isinstance(privacy, NoPrivacy):
        first, second, ratio, worth = 2 * n, 2 * p + n, 1.3, 4
    else:
        made = additive_noise(bound, loss_for(privacy), Relation(privacy.relation), Exact(1), discrete=False, users=1)
        needed = 6 * made.std * math.sqrt(n)
        first, second = math.ceil(0.8 * needed), math.ceil(needed)
        if isinstance(privacy, LocalDP):  # the noise of a leaf grows with the root of its users
            first, second = math.ceil(first**2 / 3), math.ceil(second**2 / 3)
        ratio, worth = 1.5, WORTH
    if episodes < worth * (first + second) or not steerable:
        return Schedule((episodes,))
    times = [first, first + second]
    while times[-1] < episodes:
        times.append(min(episodes, max(times[-1] + 1, math.floor(ratio * times[-1]))))
    return Schedule(times)


def make_control(
    public: LQPublic, name: str, *, episodes: int, privacy: Request, samples: int, spread: float, schedule: Schedule | None
) -> tuple[ResidualControl, Schedule, Leaves | None]:
    """What both controllers are made of."""
    if not isinstance(public, LQPublic):
        raise InvalidParameter(
            f"{name} needs a linear system with quadratic costs (LQSystem.public), got {type(public).__name__}"
        )
    check_asked(episodes, privacy)
    bound = ResidualRows(public.states, public.inputs, WEIGHT)
    exact = isinstance(privacy, NoPrivacy)
    reach = FAR if exact else REACH
    costs = Costs(public.Q, public.R, public.horizon, public.noise_radius, public.parameter_bound, public.gain_bound, reach)
    steerable = public.horizon > 1 and bool(np.any(public.Q))  # otherwise no input is worth anything
    default = control_schedule(bound, privacy, episodes, steerable=steerable)
    chosen = choose_schedule(schedule, default)
    if chosen.leaves > MOST:
        raise InvalidParameter(
            f"{name} takes at most {MOST} releases, got {chosen.leaves}: it plans from all of them, and devices would download all of them"
        )
    tries = default.leaves > 1 and chosen.leaves > 1  # with a schedule of one's own, too, somebody must be left to repay it
    algorithm = ResidualControl(costs, bound, samples, spread, tuple(chosen.times), tries, exact)
    return algorithm, chosen, None if isinstance(privacy, LocalDP | NoPrivacy) else Leaves(chosen.leaves)


class Controller(Learner):
    """A learner of linear systems. What it is given are trajectories: states are real numbers, and there is nothing to count."""

    accepts_counts = False

    def __init__(
        self,
        public: LQPublic,
        *,
        episodes: int,
        privacy: Request,
        samples: int,
        spread: float,
        schedule: Schedule | None,
        noise: NoiseSource | None,
    ) -> None:
        made = make_control(
            public, self.name, episodes=episodes, privacy=privacy, samples=samples, spread=spread, schedule=schedule
        )
        super().__init__(made[0], made[1], privacy=privacy, noise=noise, counter=made[2])
