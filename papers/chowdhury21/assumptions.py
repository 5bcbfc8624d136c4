"""Assumption 1 of [Chowdhury21], part by part, and how far states and inputs get.

The functions here read the true A and B, so they are for somebody who builds a system, and not for
agents. Privacy does not depend on them, because agents enforce their bounds.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.policy import LinearPolicy
from confide.problems import LQSystem
from confide.problems.stationary import reached_space

Array = npt.NDArray[np.float64]

# A limit counts as kept if it is exceeded by less than this share, because of rounding: .6 + 1.2 x
# .25 + .1 is at most 1.
ROUNDING = 1e-9
# The search for the farthest point has so many starts, and at most so many steps.
STARTS = 4
CLIMBS = 200


def controllability_margin(A: Array, B: Array) -> float:
    """An upper bound on the distance of (A, B) from a complex pair that is not controllable.

    Distances are in the spectral norm. The bound is the least sigma_n([A - s I, B]) over the
    eigenvalues s of A. Over all complex s it would be the distance itself.
    """
    n = len(A)
    values = np.linalg.eigvals(A)
    return float(
        min(
            np.linalg.svd(np.hstack([A - s * np.eye(n), B]), compute_uv=False)[n - 1]
            for s in values
        )
    )


@dataclass(frozen=True, slots=True)
class Reach:
    """The largest norm over all users: `attained` can occur, and no user exceeds `bound`.

    In most cases both are the same. Of the 3,234 worst cases of `random_lq(0)` to `random_lq(199)`
    three differ, by 4 % at most.
    """

    attained: float
    bound: float

    def within(self, limit: float) -> bool | None:
        """None if it lies between the two."""
        if self.bound <= limit * (1 + ROUNDING):
            return True
        return False if self.attained > limit * (1 + ROUNDING) else None

    def __str__(self) -> str:
        low, high = f"{self.attained:.4g}", f"{self.bound:.4g}"
        return high if low == high else f"{low} to {high}"


def farthest(maps: Array) -> Reach:
    """The largest ||sum_j M_j v_j|| over all ||v_j|| <= 1, for M [j, m, n].

    It is the maximum over unit vectors v of f(v) = sum_j ||M_j^T v||. This function is convex, so
    steps v <- grad f(v) / ||grad f(v)|| only climb, and the value that they reach is attained. A
    bound is sum_j ||M_j||. Another bound, for any l_j > 0, is the root of sum_j l_j times the
    largest eigenvalue of sum_j M_j M_j^T / l_j (Cauchy-Schwarz). With l_j = ||M_j^T v|| at the
    maximum it is the maximum, if v is its eigenvector.
    """
    if not np.isfinite(maps).all():
        return Reach(math.inf, math.inf)
    sizes = np.linalg.norm(maps, 2, axis=(1, 2))
    scale = float(sizes.max())
    J, m, n = maps.shape
    if scale == 0:
        return Reach(0.0, 0.0)
    # All M_j^T, one below the other.
    flat = np.ascontiguousarray(maps.transpose(0, 2, 1) / scale).reshape(J * n, m)
    v = np.linalg.eigh(flat.T @ flat)[1][:, -STARTS:]
    height = np.zeros(v.shape[1])
    for _ in range(CLIMBS):
        pulled = (flat @ v).reshape(J, n, -1)
        lengths = np.linalg.norm(pulled, axis=1)
        before = height
        height = lengths.sum(axis=0)
        if (height <= before * (1 + 1e-13)).all():
            break
        v = flat.T @ (pulled / np.maximum(lengths, 1e-300)[:, None]).reshape(J * n, -1)
        v /= np.maximum(np.linalg.norm(v, axis=0), 1e-300)
    best = int(height.argmax())
    weights = np.maximum(lengths[:, best], 1e-12)
    curvature = float(np.linalg.eigvalsh(flat.T @ (flat / np.repeat(weights, n)[:, None]))[-1])
    attained = scale * float(height[best])
    bound = min(float(sizes.sum()), scale * math.sqrt(float(weights.sum()) * curvature))
    return Reach(attained, max(bound, attained))


def reach(system: LQSystem, policy: LinearPolicy) -> tuple[tuple[Reach, ...], tuple[Reach, ...]]:
    """How far x_1, ..., x_{H+1} and u_1, ..., u_H get under linear gains.

    The worst cases are over all ||x_1|| <= 1 and all noise in its ball.
    """
    n = len(system.A)
    radius = system.noise_radius
    # The matrices that x_1 and each w so far have been multiplied by.
    maps = np.eye(n)[None]  # [j, n, n]
    states = [farthest(maps)]
    inputs = []
    # Numbers that are too large become infinite.
    with np.errstate(over="ignore", invalid="ignore"):
        for K in policy.gains:
            inputs.append(farthest(K @ maps))
            maps = np.concatenate([(system.A + system.B @ K) @ maps, radius * np.eye(n)[None]])
            states.append(farthest(maps))
    return tuple(states), tuple(inputs)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the assumption or of the lemma.

    It has its place in the paper, a text with its numbers, and whether it holds. None means that
    the bounds do not decide this.
    """

    where: str
    text: str
    holds: bool | None

    def __str__(self) -> str:
        answer = {True: "yes", False: "no", None: "not decided"}[self.holds]
        return f"{self.where:8} {answer:12} {self.text}"


@dataclass(frozen=True, slots=True)
class LQCheck:
    """Whether a system satisfies Assumption 1 of [Chowdhury21], and Lemma 2 holds for a policy.

    `str` gives a table of all parts. Assumption 1 has these parts:

    (a) ||(A, B)||_F <= 1 and (A, B) is controllable.
    (b) ||A|| <= C_A < 1, ||B|| <= C_B < 1, ||Q|| <= C, ||R|| <= C.
    (c) ||x_1|| <= 1.
    (d) The noise is independent, of mean zero, and ||w|| <= C_w < 1.
    (e) There is a gamma such that C_A + gamma C_B + C_w <= 1.

    Equation (1) also asks for a positive definite Q. Here C_A = ||A||, C_B = ||B||, and gamma is
    the system's `gain_bound`. Lemma 2 says that then ||x_h|| <= 1 and ||u_h|| <= gamma. Both hold
    for gains with ||K_h|| <= gamma, and agents project their gains to these. They do not follow for
    the optimal gains, which grow as R gets smaller, because Assumption 1 bounds R from above only.
    """

    name: str
    # "the optimal gains" or "the given gains".
    policy: str
    assumption: tuple[Part, ...]
    lemma: tuple[Part, ...]
    gain_bound: float
    # The largest gamma for which (e) holds; negative if there is none.
    largest_gamma: float
    # ||K_h|| of the policy, and how far x_1, ..., x_{H+1} and u_1, ..., u_H get under it.
    gains: tuple[float, ...]
    states: tuple[Reach, ...]
    inputs: tuple[Reach, ...]

    @property
    def holds(self) -> bool:
        """Assumption 1, all of it."""
        return all(part.holds for part in self.assumption)

    @property
    def gains_within(self) -> bool:
        """||K_h|| <= gamma at every step: projecting changes nothing."""
        return max(self.gains) <= self.gain_bound * (1 + ROUNDING)

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "does not hold"
        head = f"{self.name}: Assumption 1 of [Chowdhury21] {verdict}"
        return "\n".join(
            [head, *map(str, self.assumption), f"under {self.policy}", *map(str, self.lemma)]
        )


def check(system: LQSystem, policy: LinearPolicy | None = None) -> LQCheck:
    """Check a system with a policy, by default the optimal one.

    Nothing is sampled. The worst cases are over all ||x_1|| <= 1 and all noise in its ball.
    """
    played = system.optimal_policy if policy is None else policy
    expected = (system.horizon, len(system.R), len(system.A))
    if played.gains.shape != expected:
        raise InvalidParameter(
            f"policy must have gains of shape {expected}, got {played.gains.shape}"
        )
    A = system.A
    B = system.B
    gamma = system.gain_bound
    radius = system.noise_radius
    a, b, q, r = (float(np.linalg.norm(matrix, 2)) for matrix in (A, B, system.Q, system.R))
    gains = tuple(float(np.linalg.norm(K, 2)) for K in played.gains)
    states, inputs = reach(system, played)
    room = 1 - a - radius
    largest = room / b if b > 0 else math.copysign(math.inf, room)
    worst_state = _worst(states)
    worst_input = _worst(inputs)
    words = "the optimal gains" if policy is None else "the given gains"
    lemma = (
        Part("Lemma 2", f"||x_h|| = {worst_state} at worst, at most 1", worst_state.within(1.0)),
        Part(
            "Lemma 2",
            f"||u_h|| = {worst_input} at worst, at most gamma = {gamma:g}",
            worst_input.within(gamma),
        ),
        Part(
            "gamma",
            f"||K_h|| = {max(gains):.4g} at worst, at most gamma = {gamma:g}",
            max(gains) <= gamma * (1 + ROUNDING),
        ),
    )
    assumption = (*_dynamics(A, B, a, b), *_rest(system, q, r, a + gamma * b + radius, largest))
    return LQCheck(system.name, words, assumption, lemma, gamma, largest, gains, states, inputs)


def _dynamics(A: Array, B: Array, a: float, b: float) -> tuple[Part, ...]:
    size = float(np.hypot(np.linalg.norm(A), np.linalg.norm(B)))
    reached = reached_space(A, B)
    n = len(A)
    near = f", margin {controllability_margin(A, B):.2g}" if reached.dimension == n else ""
    return (
        Part("(a)", f"||(A, B)||_F = {size:.4g}, at most 1", size <= 1 + ROUNDING),
        Part(
            "(a)",
            f"controllable: inputs reach {reached.dimension} of {n} dimensions{near}",
            reached.dimension == n,
        ),
        Part("(b)", f"||A|| = {a:.4g}, below 1", a < 1),
        Part("(b)", f"||B|| = {b:.4g}, below 1", b < 1),
    )


def _rest(
    system: LQSystem, q: float, r: float, sum_of_all: float, largest: float
) -> tuple[Part, ...]:
    radius = system.noise_radius
    room = f"holds up to gamma = {largest:.4g}" if largest >= 0 else "no gamma is small enough"
    definite = float(np.linalg.eigvalsh(system.Q)[0])
    return (
        Part("(b)", f"||Q|| = {q:.4g}, ||R|| = {r:.4g}: C is the larger one", True),
        Part(
            "(1)",
            f"Q is positive definite: least eigenvalue {definite:.4g}",
            definite > 1e-12 * max(q, 1e-300),
        ),
        Part("(c)", "||x_1|| = 1, at most 1", True),
        Part("(d)", f"||w|| <= C_w = {radius:g}, below 1; independent, mean zero", radius < 1),
        Part(
            "(e)",
            f"||A|| + gamma ||B|| + C_w = {sum_of_all:.4g}, at most 1; {room}",
            sum_of_all <= 1 + ROUNDING,
        ),
    )


def _worst(steps: tuple[Reach, ...]) -> Reach:
    return Reach(max(step.attained for step in steps), max(step.bound for step in steps))
