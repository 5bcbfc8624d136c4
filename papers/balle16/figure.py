"""Fig. 1 of [Balle16], drawn again, and what the paper reads off it."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from confide.privacy.bounded import Array
from papers.balle16 import chain
from papers.findings import Claim, Figure, Line, Panel, Say, short
from papers.fits import fitted
from papers.text import Texts

CLAIMS = Texts(Path(__file__).with_name("claims.toml"))
PAIRS = 2
GROUPS = (1, 2, 4, 8)
CALIBRATIONS = ("paper", "tight")
_MOST = 1e13  # trajectories that a crossing is looked for up to


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """Errors [size, run] of every estimator, on the same trajectories; of DP-LSL [ridge, size, run]."""

    start: str
    sizes: tuple[int, ...]
    ridges: Array
    plain: dict[tuple[str, int], Array]  # (LSW | LSL, group)
    noisy: dict[tuple[str, int], Array]  # DP-LSW: (calibration, group)
    ridged: dict[tuple[str, int], Array]  # DP-LSL: (calibration, group); "none" is LSL
    # Excess risk with the paper's constants: (DP-LSW | DP-LSL, group), DP-LSL at lambda = 10 sqrt(m).
    risks: dict[tuple[str, int], Array]

    def best(self, calibration: str, group: int) -> tuple[Array, Array]:
        """(errors [size, run], ridges [size]) at the ridge that is best on average, which only somebody who knows the truth can choose."""
        table = self.ridged[calibration, group]
        at = table.mean(axis=2).argmin(axis=0)
        return table[at, np.arange(len(self.sizes))], self.ridges[at]


def measure(quick: bool, say: Say, start: str = "uniform") -> Curves:
    # From the first state trajectories are twice as long, and fewer of them are needed.
    most = 13 if start == "uniform" else 11
    sizes = (100, 1_000, 10_000) if quick else tuple(round(10 ** (k / 2)) for k in range(4, most))
    runs, ridges = (3, np.geomspace(10, 3e6, 7)) if quick else (20, np.geomspace(10, 3e6, 23))
    shape = len(sizes), runs
    groups = (1, PAIRS)
    plain = {(name, group): np.empty(shape) for name in ("LSW", "LSL") for group in groups}
    noisy = {(name, group): np.empty(shape) for name in CALIBRATIONS for group in groups}
    ridged = {
        (name, group): np.empty((len(ridges), *shape))
        for name in (*CALIBRATIONS, "none")
        for group in groups
    }
    risks = {(name, group): np.empty(shape) for name in ("DP-LSW", "DP-LSL") for group in GROUPS}
    for i, users in enumerate(sizes):
        say(f"Fig. 1: {runs} batches of {users:,} trajectories, {start} start")
        for run in range(runs):
            log = chain.ChainLog(users, (users, run), start)
            rng = np.random.default_rng((users, run, 1))
            for group in groups:
                plain["LSW", group][i, run] = chain.rmse(chain.lsw(group).release(log).values)
                plain["LSL", group][i, run] = chain.rmse(
                    chain.lsl(math.sqrt(users), group).release(log).values
                )
                for j, ridge in enumerate(ridges):
                    ridged["none", group][j, i, run] = chain.rmse(
                        chain.lsl(ridge, group).release(log).values
                    )
                for name in CALIBRATIONS:
                    noisy[name, group][i, run] = chain.rmse(
                        chain.released(chain.dp_lsw(name, group), log, rng)
                    )
                    for j, ridge in enumerate(ridges):
                        estimate = chain.released(chain.dp_lsl(ridge, name, group), log, rng)
                        ridged[name, group][j, i, run] = chain.rmse(estimate)
            for group in GROUPS:
                risks["DP-LSW", group][i, run] = weighted_risk(log, group, rng)
                risks["DP-LSL", group][i, run] = ridge_risk(log, group, rng)
    return Curves(start, sizes, ridges, plain, noisy, ridged, risks)


def weighted_risk(log: chain.ChainLog, group: int, rng: np.random.Generator) -> float:
    """J_X^w of a release of DP-LSW minus that of LSW, which is the least: ||Gamma^(1/2) Phi eta||^2 with w = 1."""
    moved = chain.released(chain.dp_lsw("paper", group), log, rng)
    moved = moved - chain.lsw(group).release(log).values
    return float(moved @ moved)


def ridge_risk(log: chain.ChainLog, group: int, rng: np.random.Generator) -> float:
    """J_X^lambda of a release of DP-LSL minus that of LSL: (1/m) sum_s n_s (phi_s eta)^2 + (lambda/2m) ||eta||^2."""
    m, ridge = log.users, 10 * math.sqrt(log.users)
    moved = chain.released(chain.dp_lsl(ridge, "paper", group), log, rng)
    moved = moved - chain.lsl(ridge, group).release(log).values
    parameters = moved[::group]
    return float((log.counts() @ moved**2 + ridge / 2 * parameters @ parameters) / m)


def excess_risk(users: float, group: int, estimator: str, calibration: str = "paper") -> float:
    """For a uniform start, expected over the noise, at the expected counts.

    ||Gamma^(1/2) Phi||_F^2 sigma^2 for DP-LSW, and Lemma 16 with lambda = 10 sqrt(m) for DP-LSL.
    """
    d, ridge = chain.STATES // group, 10 * math.sqrt(users)
    if estimator == "DP-LSW":
        return chain.STATES * chain.noise_std(chain.dp_lsw(calibration, group), users) ** 2
    sigma = chain.noise_std(chain.dp_lsl(ridge, calibration, group), users)
    visits = float(chain.expected_counts(users).sum())
    return (ridge * d / (2 * users) + visits / users) * sigma**2


def figures(every: Sequence[Curves]) -> tuple[Figure, ...]:
    """One figure for each start, which the paper does not state."""
    words = {"uniform": "start anywhere", "first": "all start in the first state"}
    return tuple(
        Figure(
            "balle16" if curves.start == "uniform" else f"balle16_{curves.start}",
            f"Fig. 1 of [Balle16], drawn again; users {words[curves.start]}. RMSE over the states of the chain (dotted: the constant "
            "1/2), and excess risk, against the number of trajectories m, all measured. Bands are two standard errors. In the third panel "
            "LSL and DP-LSL are shown at the ridge that minimises the true error, which is unknown in practice; in the first one LSL has "
            "lambda = sqrt(m), in the last one DP-LSL has lambda = 10 sqrt(m). `paper` has the printed constants; `tight` gives the same "
            "guarantee with a smaller alpha and a larger beta.",
            (_left(curves), _second(curves), _third(curves), _fourth(curves)),
        )
        for curves in every
    )


def _line(label: str, x: Array, table: Array, tone: int | None, dash: str = "solid") -> Line:
    """The mean over the last axis, and two standard errors."""
    error = 2 * table.std(axis=-1, ddof=1) / math.sqrt(table.shape[-1])
    return Line(label, tuple(map(float, x)), tuple(table.mean(axis=-1)), tuple(error), tone, dash)


def _constant(x: Array) -> Line:
    return Line(
        "constant 1/2",
        (float(x[0]), float(x[-1])),
        (chain.constant_error(),) * 2,
        None,
        None,
        "dot",
    )


def _left(curves: Curves) -> Panel:
    sizes = np.array(curves.sizes, dtype=float)
    names = {1: "table", PAIRS: "pairs"}
    lines = [
        _line(
            f"{name}, {names[group]}",
            sizes,
            curves.plain[name, group],
            tone,
            "solid" if group == 1 else "dash",
        )
        for tone, name in enumerate(("LSW", "LSL"))
        for group in names
    ]
    return Panel("without privacy", "trajectories", "RMSE", tuple(lines))


def _second(curves: Curves) -> Panel:
    lines = []
    for dash, i in (("dash", len(curves.sizes) // 2), ("solid", -1)):
        users = f"m = {curves.sizes[i]:.3g}"
        lines.append(_line(f"LSL, {users}", curves.ridges, curves.ridged["none", 1][:, i], 1, dash))
        exact = np.tile(curves.plain["LSW", 1][i], (2, 1))
        lines.append(_line(f"LSW, {users}", curves.ridges[[0, -1]], exact, 0, dash))
        for tone, name in enumerate(CALIBRATIONS, 2):
            lines.append(
                _line(
                    f"DP-LSL {name}, {users}",
                    curves.ridges,
                    curves.ridged[name, 1][:, i],
                    tone,
                    dash,
                )
            )
            level = np.tile(curves.noisy[name, 1][i], (2, 1))
            lines.append(
                _line(f"DP-LSW {name}, {users}", curves.ridges[[0, -1]], level, tone + 2, dash)
            )
    return Panel("the table, by ridge", "lambda", "RMSE", (*lines, _constant(curves.ridges)))


def _third(curves: Curves) -> Panel:
    sizes, lines = np.array(curves.sizes, dtype=float), []
    lines.append(_line("LSW", sizes, curves.plain["LSW", PAIRS], 0))
    lines.append(_line("LSL", sizes, curves.best("none", PAIRS)[0], 1))
    for tone, name in enumerate(CALIBRATIONS, 2):
        lines.append(_line(f"DP-LSL {name}", sizes, curves.best(name, PAIRS)[0], tone))
        lines.append(_line(f"DP-LSW {name}", sizes, curves.noisy[name, PAIRS], tone + 2))
    return Panel("pairs of states", "trajectories", "RMSE", (*lines, _constant(sizes)))


def _fourth(curves: Curves) -> Panel:
    sizes = np.array(curves.sizes, dtype=float)
    lines = [
        _line(f"{name}, d = {chain.STATES // group}", sizes, curves.risks[name, group], tone, dash)
        for name, dash in (("DP-LSW", "solid"), ("DP-LSL", "dash"))
        for tone, group in enumerate(GROUPS)
    ]
    return Panel("paper, by aggregation", "trajectories", "excess risk", tuple(lines))


def claims(every: Sequence[Curves]) -> tuple[Claim, ...]:
    """For a uniform start; where the start decides, both are said."""
    curves = next(each for each in every if each.start == "uniform")
    return (
        *_without_privacy(curves),
        *_with_privacy(curves),
        _ridges(curves),
        *_aggregation(curves),
    )


def _without_privacy(curves: Curves) -> tuple[Claim, ...]:
    errors = {key: table.mean(axis=1) for key, table in curves.plain.items()}
    apart = errors["LSL", 1] / errors["LSW", 1]
    falling = all((np.diff(errors["LSL", group]) < 0).all() for group in (1, PAIRS))
    pairs = float(errors["LSL", PAIRS][-1] / errors["LSW", PAIRS][-1])
    return (
        CLAIMS.claim(
            "sec-6-left-plot",
            falling,
            {"table": float(errors["LSL", 1][-1]), "ratio_pairs": pairs},
            lsl_first=short(errors["LSL", 1][0]),
            lsl_last=short(errors["LSL", 1][-1]),
            largest_size=curves.sizes[-1],
            lsw_last=short(errors["LSW", 1][-1]),
            pairs=pairs,
        ),
        CLAIMS.claim(
            "sec-6-left-plot-faster",
            bool(apart.min() > 1),
            {"least": float(apart.min()), "most": float(apart.max())},
            least=apart.min(),
            most=apart.max(),
        ),
    )


def _with_privacy(curves: Curves) -> tuple[Claim, ...]:
    error = curves.plain["LSW", 1].mean(axis=1)
    rate = float(error[-1] * math.sqrt(curves.sizes[-1]))  # LSW's error is rate / sqrt(m)
    even = {name: crossing(name, lambda m: rate / math.sqrt(m)) for name in CALIBRATIONS}
    useful = {name: crossing(name, lambda _: chain.constant_error()) for name in CALIBRATIONS}
    from_first = {
        name: crossing(name, lambda _: chain.constant_error(), start="first")
        for name in CALIBRATIONS
    }
    lsl, lsw = curves.best("paper", 1)[0].mean(axis=1), curves.noisy["paper", 1].mean(axis=1)
    better = [users for users, a, b in zip(curves.sizes, lsl, lsw, strict=True) if a < b]
    largest = curves.sizes[-1]
    return (
        CLAIMS.claim(
            "sec-6-third-plot",
            even["paper"] < _MOST,
            {
                "even_paper": even["paper"],
                "even_tight": even["tight"],
                "ratio": float(lsw[-1] / error[-1]),
            },
            paper=short(even["paper"]),
            tight=short(even["tight"]),
            largest=largest,
            ratio=short(lsw[-1] / error[-1]),
            rate=short(rate),
        ),
        CLAIMS.claim(
            "sec-6-third-plot-sizes",
            bool(lsl[0] < lsw[0]) and (lsw[-1] < lsl[-1] or largest < 10**6),
            {
                "dp_lsl_first": float(lsl[0]),
                "dp_lsw_first": float(lsw[0]),
                "dp_lsl_last": float(lsl[-1]),
                "dp_lsw_last": float(lsw[-1]),
            },
            last_better=max(better, default=0),
            largest=largest,
            lsl_first=short(lsl[0]),
            lsw_first=short(lsw[0]),
            smallest_size=curves.sizes[0],
            lsl_last=short(lsl[-1]),
            lsw_last=short(lsw[-1]),
            constant_error=chain.constant_error(),
        ),
        CLAIMS.claim(
            "sec-6-last-lines",
            None,
            {
                "useful_paper": useful["paper"],
                "useful_tight": useful["tight"],
                "first_paper": from_first["paper"],
                "first_tight": from_first["tight"],
            },
            paper=short(useful["paper"]),
            tight=short(useful["tight"]),
            first_paper=short(from_first["paper"]),
            first_tight=short(from_first["tight"]),
        ),
    )


def crossing(
    calibration: str, error: Callable[[float], float], group: int = 1, start: str = "uniform"
) -> float:
    """The number of trajectories from which the noise of DP-LSW is below an error."""
    estimator = chain.dp_lsw(calibration, group)
    low, high = 10.0, _MOST
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        noise = chain.noise_std(estimator, middle, start=start)
        low, high = (low, middle) if noise < error(middle) else (middle, high)
    return high


def _ridges(curves: Curves) -> Claim:
    """Over all sizes, and over those where something is learned: at the others the best ridge is one that makes the estimate zero."""
    found, said = {}, []
    for name in CALIBRATIONS:
        errors, ridges = curves.best(name, 1)
        over_all = fitted(curves.sizes, ridges[None]).slope
        learned = errors.mean(axis=1) < 0.8 * chain.constant_error(0.0)
        if learned.sum() < 3:
            said.append(
                f"{name}: exponent {over_all:.2f} over all sizes, and nothing is learned at these"
            )
            continue
        sizes = np.array(curves.sizes)[learned]
        found[name] = fitted(sizes.tolist(), ridges[None, learned]).slope
        span = f"from {short(ridges[learned][0])} at m = {sizes[0]:,} to {short(ridges[learned][-1])} at {sizes[-1]:,}"
        said.append(
            f"{name}: {span}, exponent {found[name]:.2f}, and {over_all:.2f} over all sizes from {curves.sizes[0]} on"
        )
    return CLAIMS.claim(
        "ridges",
        all(abs(value - 0.5) < 0.15 for value in found.values()) if found else None,
        found,
        ridges=len(curves.ridges),
        measured="; ".join(said),
    )


def _aggregation(curves: Curves) -> tuple[Claim, ...]:
    users, largest = 1e5, curves.sizes[-1]
    risks = {
        name: [float(curves.risks[name, group][-1].mean()) for group in GROUPS]
        for name in ("DP-LSW", "DP-LSL")
    }
    expected = {
        name: [excess_risk(largest, group, name) for group in GROUPS]
        for name in ("DP-LSW", "DP-LSL")
    }
    betas = [chain.mechanism(chain.dp_lsw("paper", group)).beta for group in GROUPS]
    smooth = [chain.noise_std(chain.dp_lsw("paper", group), users) for group in GROUPS]
    errors = [float(curves.best("paper", group)[0].mean(axis=1)[-1]) for group in (1, PAIRS)]
    sizes = ", ".join(str(chain.STATES // group) for group in GROUPS)
    return (
        CLAIMS.claim(
            "sec-6-last-plot",
            _falls(risks["DP-LSW"]),
            _by_dimension("risk", risks["DP-LSW"]),
            sizes=sizes,
            largest=largest,
            risks=", ".join(map(short, risks["DP-LSW"])),
            expected=", ".join(map(short, expected["DP-LSW"])),
        ),
        CLAIMS.claim(
            "sec-6-last-plot-dp-lsl",
            None,
            {"pairs": errors[1], "table": errors[0], **_by_dimension("risk", risks["DP-LSL"])},
            with_pairs=short(errors[1]),
            on_table=short(errors[0]),
            largest_size=curves.sizes[-1],
            risks=", ".join(map(short, risks["DP-LSL"])),
            expected=", ".join(map(short, expected["DP-LSL"])),
            sizes=sizes,
        ),
        CLAIMS.claim(
            "sec-6",
            _falls(betas[::-1]) and _falls(smooth),
            _by_dimension("beta", betas),
            sizes=sizes,
            betas=", ".join(map(short, betas)),
            noise=", ".join(map(short, smooth)),
        ),
    )


def _falls(row: list[float]) -> bool:
    return all(later < earlier for earlier, later in itertools.pairwise(row))


def _by_dimension(name: str, row: list[float]) -> dict[str, float]:
    return {
        f"{name}_{chain.STATES // group}": value for group, value in zip(GROUPS, row, strict=True)
    }
