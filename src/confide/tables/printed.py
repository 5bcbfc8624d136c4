"""The constants of the papers on private learning in tables, the noise that they print, and when their bonus lets learning start.

Where they are from. No text of [Vietri20], [Garcelon21], [ChowdhuryZhou21] and [QiaoWang23] could be had when this was written: their
constants are recalled, and steps that are not recalled are derived, as each docstring says. Compare with the papers before relying on a
digit. Common to all: H steps, S states, A actions, K users, T = K H, rewards in [0, 1]; n is a count of visits of (h, s, a), and every
count is noised.

True loss. All but [Garcelon21] divide epsilon by 3 H: three kinds of counts (visits, transitions, rewards) of H steps each. But a user
who is replaced leaves up to H cells of each kind and enters up to H others: the L1 sensitivity is 6 H. So the printed noise gives 2
epsilon under "replace", and epsilon under "null". [Garcelon21] divides by 6 H. Where rewards are known, they are not counted: two thirds
of these, and for [Garcelon21] a third.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import real, whole
from confide.tables.optimistic_planning import Bonus, Errors

Array = npt.NDArray[np.float64]
MOST = 10**15  # users: learning that does not start before does not start


@dataclass(frozen=True, slots=True)
class TableSetting:
    """K, H, S, A and the probability with which the theorems may fail."""

    episodes: int
    horizon: int
    states: int
    actions: int
    failure: float = 0.1

    def __post_init__(self) -> None:
        for name in ("episodes", "horizon", "states", "actions"):
            whole(name, getattr(self, name), at_least=1)
        real("failure", self.failure, above=0, below=1)

    @property
    def log_levels(self) -> float:
        """log2 K, at least one."""
        return max(math.log2(self.episodes), 1.0)

    @property
    def levels(self) -> int:
        return math.ceil(self.log_levels)


# Every rule has a `scale`, the b of the Laplace noise on every node of a tree or number of a message; `errors(users)`, which bound the
# noise of the counts with probability 1 - failure; `totals(visits, errors)`, by which noisy counts are divided; and `bonus(n, errors)` for
# these totals. `epsilon` is infinite without privacy. Q_h is cut at the steps left (`remaining`), or at H.


@dataclass(frozen=True, slots=True)
class PUCBRule:
    """[Vietri20, Alg. 2 and 3]: counters with epsilon / (3 H) each, by the binary mechanism [Chan11], Laplace noise of log2 K times 3 H /
    epsilon on its nodes. E = (3 H / epsilon) ln((2 S A H + S^2 A H) / beta') ln(K)^(5/2); a pair with less than 2 E visits has the bonus
    H, the others (H + 1) phi + psi, phi = sqrt(2 ln(K / beta') / max(n - E, 1)), psi = (1 + S H) (3 E / n + 2 E^2 / n^2). Recalled, with
    beta' = beta / 9.
    """

    remaining: ClassVar[bool] = False

    setting: TableSetting
    epsilon: float
    learned: bool = True

    @property
    def share(self) -> float:
        """beta'"""
        return self.setting.failure / 9

    @property
    def scale(self) -> float:
        return 3 * self.setting.horizon * self.setting.levels / self.epsilon

    def errors(self, users: int) -> Errors:  # noqa: ARG002 - printed for all episodes together
        K, H, S, A = (
            self.setting.episodes,
            self.setting.horizon,
            self.setting.states,
            self.setting.actions,
        )
        counters = 2 * S * A * H + S**2 * A * H
        E = 3 * H / self.epsilon * math.log(counters / self.share) * math.log(max(K, 2)) ** 2.5
        return Errors(E, E, E, math.log(K / self.share))

    def totals(self, visits: Array, errors: Errors) -> Array:  # noqa: ARG002
        return visits

    def bonus(self, n: Array, errors: Errors) -> Bonus:
        H, S, E = self.setting.horizon, self.setting.states, errors.pair
        known = n > 0  # below 2 E visits psi is above H already
        n = np.where(known, n, 1.0)
        phi = np.sqrt(2 * errors.log / np.maximum(n - E, 1.0))
        psi = (1 + S * H) * (3 * E / n + 2 * E**2 / n**2)
        return Bonus(
            np.where(known, (H + 1) * phi + psi, np.inf), np.zeros_like(n), np.zeros_like(n)
        )


@dataclass(frozen=True, slots=True)
class UCBVIRule:
    """[ChowdhuryZhou21], Private-UCB-VI with its central and its local privatizer.

    P~ = N~(s, a, s') / max(1, N~(s, a) + E1), and so for rewards. The bonus is H L / sqrt(n) + H (S E2 + 2 E1) / n with n = max(1, N~ +
    E1), L = sqrt(2 ln(4 S A T / delta)), and for rewards L / sqrt(n) + 3 E1 / n. Central: a tree whose nodes have Laplace noise b = 3 H
    log2 K / epsilon, of which log2 K are summed: E1 = b sqrt(8 log2 K ln(6 S A T / delta)), for E2 with S^2. Local: b = 3 H / epsilon,
    and K of them. Private-UCB-PO bounds P~ in L1 instead, sqrt(2 S) L for L. Recalled; the base of the logarithm is that of the tree.
    """

    remaining: ClassVar[bool] = True

    setting: TableSetting
    epsilon: float
    learned: bool = True
    local: bool = False
    policies: bool = False  # Private-UCB-PO

    @property
    def scale(self) -> float:
        return 3 * self.setting.horizon * (1 if self.local else self.setting.levels) / self.epsilon

    def errors(self, users: int) -> Errors:  # noqa: ARG002 - printed for all episodes together
        K, H, S, A = (
            self.setting.episodes,
            self.setting.horizon,
            self.setting.states,
            self.setting.actions,
        )
        T, delta, levels = K * H, self.setting.failure, self.setting.log_levels
        size = 3 * H / self.epsilon * math.sqrt(8 * (K if self.local else levels**3))
        pair, cell = (
            size * math.sqrt(math.log(6 * kinds * T / delta)) for kinds in (S * A, S**2 * A)
        )
        return Errors(pair, cell, pair, math.log(4 * S * A * T / delta))

    def totals(self, visits: Array, errors: Errors) -> Array:
        return np.maximum(visits + errors.pair, 1.0)

    def bonus(self, n: Array, errors: Errors) -> Bonus:
        H, S = self.setting.horizon, self.setting.states
        sampling = math.sqrt(2 * errors.log) / np.sqrt(n)
        moves = np.sqrt(2.0 * S) * sampling if self.policies else sampling
        fixed = H * moves + H * (S * errors.cell + 2 * errors.pair) / n
        if self.learned:
            fixed = fixed + sampling + (errors.reward + 2 * errors.pair) / n
        return Bonus(fixed, np.zeros_like(n), np.zeros_like(n))


@dataclass(frozen=True, slots=True)
class OBIRule:
    """[Garcelon21], LDP-OBI: each user adds Laplace noise b = 6 H / epsilon to sums over the episode.

    P~ = N~(s, a, s') / (N~(s, a) + alpha c3), N~(s, a) = sum_s' N~(s, a, s'). The bonus of step h is (H - h + 1) beta_p + beta_r,
    beta_p = sqrt(14 S L / n) + (S c4 + (alpha + 1) c3) / n, beta_r = sqrt(2 L / n) + ((alpha + 1) c2 + c1) / n, n the divisor. Recalled;
    derived here: alpha = 2 (any above one will do), L = ln(4 pi^2 S A H k^3 / (3 delta)), and for a sum of m Laplace variables in one
    of N numbers c = b max(sqrt(m), sqrt(l)) sqrt(8 l), l = ln(4 pi^2 k^2 N / (3 delta)) [Chan11, Lemma 2.8 with a union over users], m
    = k for c1, c2 and c4, and m = S k for c3. k users so far.
    """

    remaining: ClassVar[bool] = True
    alpha: ClassVar[float] = 2.0

    setting: TableSetting
    epsilon: float
    learned: bool = True

    @property
    def scale(self) -> float:
        return 6 * self.setting.horizon / self.epsilon

    def _error(self, noises: int, numbers: int, users: int) -> float:
        log = math.log(4 * math.pi**2 * users**2 * numbers / (3 * self.setting.failure))
        return self.scale * max(math.sqrt(noises), math.sqrt(log)) * math.sqrt(8 * log)

    def errors(self, users: int) -> Errors:
        H, S, A, k = self.setting.horizon, self.setting.states, self.setting.actions, max(users, 1)
        log = math.log(4 * math.pi**2 * S * A * H * k**3 / (3 * self.setting.failure))
        return Errors(
            self._error(S * k, S * A, k), self._error(k, S**2 * A, k), self._error(k, S * A, k), log
        )

    def totals(self, visits: Array, errors: Errors) -> Array:
        return visits + self.alpha * errors.pair

    def bonus(self, n: Array, errors: Errors) -> Bonus:
        S, known = self.setting.states, n > 0
        n = np.where(known, n, 1.0)
        slope = (
            np.sqrt(14 * S * errors.log / n)
            + (S * errors.cell + (self.alpha + 1) * errors.pair) / n
        )
        fixed = np.zeros_like(n)
        if self.learned:
            fixed = np.sqrt(2 * errors.log / n) + (self.alpha + 2) * errors.reward / n
        return Bonus(np.where(known, fixed, np.inf), slope, np.zeros_like(n))


@dataclass(frozen=True, slots=True)
class DPUCBVIRule:
    """[QiaoWang23], DP-UCBVI with its central and its local privatizer: a Bernstein bonus on counts that are made consistent.

    N~(s, a, .) is next to the noisy counts in the largest difference, among rows that are not negative and sum to within E / 4 of the
    noisy number of visits; then E / (2 S) is added to each, so that N~(s, a) >= N(s, a). The bonus is 2 sqrt(Var(V) i / n) + sqrt(2 i / n)
    for rewards + 20 H S E i / n + 4 sqrt(i sum_s' P~(s') min(G(s'), H^2) / n), with i = ln(30 H S A T / beta) and, for m visits of s',
    G = 1000^2 (H^3 S A i^2 / m + (H^4 E^2 + H^6) S^4 A^2 i^4 / m^2). Here H^2 stands for the minimum, which it is unless a state has more
    than 1e6 H S A i^2 visits (riverswim: 1e11). Noise: three kinds of counts with epsilon / (3 H log2 K) each in a tree, locally with
    epsilon / (3 H). The rule for N~, the noise and i were read in [QiaoWang24, Alg. 1, Sec. 5], which restates them for two kinds of
    counts, and has K for T. The bonus is recalled; E, printed as O((H / epsilon) log^2), is derived: four times the bound of `UCBVIRule`
    on the noise of a count.
    """

    remaining: ClassVar[bool] = False

    setting: TableSetting
    epsilon: float
    learned: bool = True
    local: bool = False

    @property
    def _noise(self) -> UCBVIRule:
        return UCBVIRule(self.setting, self.epsilon, self.learned, self.local)

    @property
    def scale(self) -> float:
        return self._noise.scale

    def errors(self, users: int) -> Errors:
        K, H, S, A = (
            self.setting.episodes,
            self.setting.horizon,
            self.setting.states,
            self.setting.actions,
        )
        E = 4 * self._noise.errors(users).cell
        return Errors(E, E, E, math.log(30 * H * S * A * K * H / self.setting.failure))

    def totals(self, visits: Array, errors: Errors) -> Array:
        return np.maximum(visits + errors.pair / 2, 0.0)

    def consistent(self, cells: Array, visits: Array, errors: Errors) -> Array:
        """Rows [pair, s'] that are not negative, of which the largest difference from `cells` is the least; without the E / (2 S).

        With differences of at most t the sums that can be had are those from sum (c - t)^+ to sum (c + t)^+, for t from -min c on. Both
        ends move apart with t: the least t is found by bisection, and of rows with this t the one between the ends is taken.
        """
        slack = errors.cell / 4
        low = np.maximum(-cells.min(axis=1), 0.0)
        high = low + np.abs(cells).sum(axis=1) + np.abs(visits)

        def ends(t: Array) -> tuple[Array, Array]:
            return np.maximum(cells - t[:, None], 0.0), np.maximum(cells + t[:, None], 0.0)

        def possible(t: Array) -> npt.NDArray[np.bool_]:
            least, most = (each.sum(axis=1) for each in ends(t))
            return np.asarray((least <= np.maximum(visits + slack, 0.0)) & (most >= visits - slack))

        high = np.where(possible(low), low, high)
        for _ in range(60):
            middle = (low + high) / 2
            fits = possible(middle)
            low, high = np.where(fits, low, middle), np.where(fits, middle, high)
        least, most = ends(high)
        start, room = least.sum(axis=1), (most - least).sum(axis=1)
        share = np.where(
            room > 0, np.clip((visits - start) / np.where(room > 0, room, 1.0), 0.0, 1.0), 0.0
        )
        return np.asarray(least + share[:, None] * (most - least))

    def bonus(self, n: Array, errors: Errors) -> Bonus:
        H, S, known = self.setting.horizon, self.setting.states, n > 0
        n = np.where(known, n, 1.0)
        fixed = 20 * H * S * errors.cell * errors.log / n + 4 * H * np.sqrt(errors.log / n)
        if self.learned:
            fixed = fixed + np.sqrt(2 * errors.log / n)
        return Bonus(np.where(known, fixed, np.inf), np.zeros_like(n), 2 * np.sqrt(errors.log / n))


AnyRule = PUCBRule | UCBVIRule | OBIRule | DPUCBVIRule


def bonus_of_one(rule: AnyRule) -> float:
    """The bonus at the first step of a pair that every one of the K users visits."""
    K, H = rule.setting.episodes, rule.setting.horizon
    errors = rule.errors(K)
    n = rule.totals(np.array([float(K)]), errors)
    return float(rule.bonus(n, errors).at_most(H)[0])


def starts(rule: AnyRule, below: float | None = None) -> int:
    """From how many users on a pair that all of them visit has a bonus below H (or `below`). Before, every Q is cut: nothing is
    learned. Some number above MOST: not before that many."""
    least = float(rule.setting.horizon) if below is None else real("below", below, above=0)

    def known(users: int) -> bool:
        return bonus_of_one(replace(rule, setting=replace(rule.setting, episodes=users))) < least

    high = 1
    while not known(high):
        high *= 2
        if high > MOST:
            return high
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if known(middle) else (middle, high)
    return high
