"""Fig. 1 of [Balle16], drawn again, and what the paper reads off it."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from confide.privacy.bounded import Array
from papers.balle16 import chain
from papers.findings import Claim, Figure, Holds, Line, Panel, Say, short
from papers.fits import fit_growth
from papers.text import Texts

CLAIMS = Texts(Path(__file__).with_name("claims.toml"))
PAIRS = 2
GROUPS = (1, 2, 4, 8)
CALIBRATIONS = ("paper", "tight")
# Crossings are searched for up to so many trajectories.
LARGEST_BATCH = 1e13


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """The errors of all estimators, on the same trajectories.

    Arrays are [size, run], and those of `ridged` are [ridge, size, run]. A group is the number of
    states that share one value.
    """

    start: str
    sizes: tuple[int, ...]
    ridges: Array
    # By name (LSW or LSL, with lambda = sqrt(m)) and group.
    plain: dict[tuple[str, int], Array]
    # Of DP-LSW, by calibration and group.
    noisy: dict[tuple[str, int], Array]
    # Of DP-LSL, by calibration and group. The calibration "none" is LSL.
    ridged: dict[tuple[str, int], Array]
    # Excess risk with the paper's constants, by name (DP-LSW or DP-LSL) and group. DP-LSL has
    # lambda = 10 sqrt(m).
    risks: dict[tuple[str, int], Array]

    def best(self, calibration: str, group: int) -> tuple[Array, Array]:
        """Errors [size, run] and ridges [size], at the ridge that is best on average.

        Only somebody who knows the true values can choose this ridge.
        """
        errors = self.ridged[calibration, group]
        best_index = errors.mean(axis=2).argmin(axis=0)
        return errors[best_index, np.arange(len(self.sizes))], self.ridges[best_index]


def batch_sizes(quick: bool, start: str, users: int | None = None) -> tuple[int, ...]:
    """Numbers of trajectories, at most `users` of them."""
    if quick:
        sizes: tuple[int, ...] = (100, 1_000, 10_000)
    else:
        # Trajectories from the first state are twice as long, and fewer of them are needed.
        half_powers = range(4, 13 if start == "uniform" else 11)
        sizes = tuple(round(10 ** (k / 2)) for k in half_powers)
    if users is None:
        return sizes
    return tuple(size for size in sizes if size <= users) or sizes[:1]


def measure(quick: bool, say: Say, start: str = "uniform", most_users: int | None = None) -> Curves:
    """Run all estimators on the same trajectories, for every size and seed."""
    sizes = batch_sizes(quick, start, most_users)
    runs = 3 if quick else 20
    ridges = np.geomspace(10, 3e6, 7 if quick else 23)
    shape = (len(sizes), runs)
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
                        chain.release_values(chain.dp_lsw(name, group), log, rng)
                    )
                    for j, ridge in enumerate(ridges):
                        estimate = chain.release_values(chain.dp_lsl(ridge, name, group), log, rng)
                        ridged[name, group][j, i, run] = chain.rmse(estimate)
            for group in GROUPS:
                risks["DP-LSW", group][i, run] = weighted_risk(log, group, rng)
                risks["DP-LSL", group][i, run] = ridge_risk(log, group, rng)
    return Curves(start, sizes, ridges, plain, noisy, ridged, risks)


def weighted_risk(log: chain.ChainLog, group: int, rng: np.random.Generator) -> float:
    """J_X^w of a release of DP-LSW minus that of LSW, which is the least.

    It is ||Gamma^(1/2) Phi eta||^2 with w = 1.
    """
    moved = chain.release_values(chain.dp_lsw("paper", group), log, rng)
    moved = moved - chain.lsw(group).release(log).values
    return float(moved @ moved)


def ridge_risk(log: chain.ChainLog, group: int, rng: np.random.Generator) -> float:
    """J_X^lambda of a release of DP-LSL minus that of LSL.

    It is (1/m) sum_s n_s (phi_s eta)^2 + (lambda/2m) ||eta||^2, with lambda = 10 sqrt(m).
    """
    m = log.users
    ridge = 10 * math.sqrt(m)
    moved = chain.release_values(chain.dp_lsl(ridge, "paper", group), log, rng)
    moved = moved - chain.lsl(ridge, group).release(log).values
    parameters = moved[::group]
    return float((log.counts() @ moved**2 + ridge / 2 * parameters @ parameters) / m)


def excess_risk(users: float, group: int, estimator: str, calibration: str = "paper") -> float:
    """For a uniform start, expected over the noise, at the expected counts.

    ||Gamma^(1/2) Phi||_F^2 sigma^2 for DP-LSW, and Lemma 16 with lambda = 10 sqrt(m) for DP-LSL.
    """
    d = chain.STATES // group
    ridge = 10 * math.sqrt(users)
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
            f"Fig. 1 of [Balle16], drawn again; users {words[curves.start]}. The first three "
            "panels show the RMSE over the states of the chain (dotted: the constant 1/2), and the "
            "last one the excess risk, all measured. m is the number of trajectories. Bands are "
            "two standard errors. In the first panel LSL has lambda = sqrt(m). In the third panel "
            "LSL and DP-LSL have the lambda with the smallest true error, which nobody knows in "
            "practice. In the last panel DP-LSL has lambda = 10 sqrt(m). `paper` has the paper's "
            "constants. `tight` gives the same guarantee with a smaller alpha and a larger beta.",
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
    sizes = np.array(curves.sizes, dtype=float)
    lines = []
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
    """The claims for a uniform start. Where the start matters, a claim has both."""
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
    useful = {name: crossing(name, lambda _: chain.constant_error()) for name in CALIBRATIONS}
    from_first = {
        name: crossing(name, lambda _: chain.constant_error(), start="first")
        for name in CALIBRATIONS
    }
    return (
        _same_solutions(curves),
        _small_and_large_batches(curves),
        CLAIMS.claim(
            "sec-6-last-lines",
            None,
            {
                "useful_paper": useful["paper"],
                "useful_tight": useful["tight"],
                "first_paper": from_first["paper"],
                "first_tight": from_first["tight"],
            },
            paper=number_of_trajectories(useful["paper"]),
            tight=number_of_trajectories(useful["tight"]),
            first_paper=number_of_trajectories(from_first["paper"]),
            first_tight=number_of_trajectories(from_first["tight"]),
        ),
    )


def _same_solutions(curves: Curves) -> Claim:
    """How many trajectories DP-LSW needs to be as good as LSW, and DP-LSL as LSL, with pairs."""
    # With so many trajectories that lambda = 0 is allowed, both tend to the mean of each pair.
    limit = chain.rmse(chain.expected_lsl(1.0, 0.0, PAIRS, "first"))
    keys = [(start, name) for start in chain.STARTS for name in CALIBRATIONS]
    lsw = {
        (start, name): crossing(name, lambda _: limit, group=PAIRS, start=start)
        for start, name in keys
    }
    lsl = {(start, name): ridge_crossing(name, limit, PAIRS, start) for start, name in keys}
    # On the table the error of LSW is rate / sqrt(m).
    last_error = curves.plain["LSW", 1].mean(axis=1)[-1]
    rate = float(last_error * math.sqrt(curves.sizes[-1]))
    table = {name: crossing(name, lambda m: rate / math.sqrt(m)) for name in CALIBRATIONS}
    labels = {
        "paper": ("uniform", "paper"),
        "tight": ("uniform", "tight"),
        "first_paper": ("first", "paper"),
        "first_tight": ("first", "tight"),
    }
    numbers = {
        **{f"lsw_{label}": lsw[key] for label, key in labels.items()},
        **{f"lsl_{label}": lsl[key] for label, key in labels.items()},
        **{f"table_{name}": size for name, size in table.items()},
    }
    return CLAIMS.claim(
        "sec-6-third-plot",
        max(numbers.values()) < LARGEST_BATCH,
        numbers,
        limit=short(limit),
        rate=short(rate),
        **{name: number_of_trajectories(size) for name, size in numbers.items()},
    )


def _small_and_large_batches(curves: Curves) -> Claim:
    """Whether DP-LSL is better with few trajectories and DP-LSW with many, with pairs of states."""
    lsl = curves.best("paper", PAIRS)[0].mean(axis=1)
    lsw = curves.noisy["paper", PAIRS].mean(axis=1)
    sizes_where_lsl_is_better = [
        users
        for users, lsl_error, lsw_error in zip(curves.sizes, lsl, lsw, strict=True)
        if lsl_error < lsw_error
    ]
    largest = curves.sizes[-1]
    holds: Holds
    if lsw[-1] < lsl[-1]:
        holds = bool(lsl[0] < lsw[0])
        large_batches = "DP-LSW has the smaller error at the largest size, as claimed."
    else:
        holds = "not tested"
        large_batches = "So the part about large batches is not tested at these sizes."
    return CLAIMS.claim(
        "sec-6-third-plot-sizes",
        holds,
        {
            "dp_lsl_first": float(lsl[0]),
            "dp_lsw_first": float(lsw[0]),
            "dp_lsl_last": float(lsl[-1]),
            "dp_lsw_last": float(lsw[-1]),
        },
        last_better=max(sizes_where_lsl_is_better, default=0),
        largest=largest,
        lsl_first=short(lsl[0]),
        lsw_first=short(lsw[0]),
        smallest_size=curves.sizes[0],
        lsl_last=short(lsl[-1]),
        lsw_last=short(lsw[-1]),
        constant_error=chain.constant_error(),
        large_batches=large_batches,
    )


def crossing(
    calibration: str, error: Callable[[float], float], group: int = 1, start: str = "uniform"
) -> float:
    """The number of trajectories from which the noise of DP-LSW is below an error."""
    estimator = chain.dp_lsw(calibration, group)

    def is_below(users: float) -> bool:
        return chain.noise_std(estimator, users, start=start) < error(users)

    return first_size(is_below, ratio=1.0001)


def ridge_crossing(calibration: str, limit: float, group: int, start: str) -> float:
    """The number of trajectories from which DP-LSL is at most sqrt(2) times as wrong as a limit.

    At each size it has the best of 40 values of lambda. Its squared error is that of the expected
    estimate of LSL with this lambda plus the variance of the noise. The factor sqrt(2) means that
    noise may add as much as the limit itself, as in `crossing`.
    """
    target = math.sqrt(2) * limit

    def error(users: float, ridge: float) -> float:
        bias = chain.rmse(chain.expected_lsl(users, ridge, group, start))
        noise = chain.noise_std(chain.dp_lsl(ridge, calibration, group), users, start=start)
        return math.hypot(bias, noise)

    def is_below(users: float) -> bool:
        ridges = np.geomspace(1, 1e4, 40) * math.sqrt(users)
        return any(error(users, ridge) <= target for ridge in ridges)

    return first_size(is_below, ratio=1.01)


def number_of_trajectories(size: float) -> str:
    """Three significant digits, with commas up to ten million."""
    return f"{float(f'{size:.3g}'):,.0f}" if size < 1e7 else short(size)


def first_size(is_enough: Callable[[float], bool], ratio: float) -> float:
    """The number of trajectories from which something is true, up to a ratio."""
    low = 10.0
    high = LARGEST_BATCH
    while high / low > ratio:
        middle = math.sqrt(low * high)
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high


def _ridges(curves: Curves) -> Claim:
    """How the best ridge grows with m, over all sizes and over those where something is learned.

    At the other sizes the best ridge is one that makes the estimate zero.
    """
    exponents = {}
    texts = []
    for name in CALIBRATIONS:
        errors, ridges = curves.best(name, 1)
        over_all = fit_growth(curves.sizes, ridges[None]).slope
        learned = errors.mean(axis=1) < 0.8 * chain.constant_error(0.0)
        if learned.sum() < 3:
            texts.append(
                f"{name}: exponent {over_all:.2f} over all sizes, and nothing is learned at these"
            )
            continue
        sizes = np.array(curves.sizes)[learned]
        exponents[name] = fit_growth(sizes.tolist(), ridges[None, learned]).slope
        first, last = ridges[learned][[0, -1]]
        texts.append(
            f"{name}: from {short(first)} at m = {sizes[0]:,} to {short(last)} at {sizes[-1]:,}, "
            f"exponent {exponents[name]:.2f}, and {over_all:.2f} over all sizes from "
            f"{curves.sizes[0]} on"
        )
    # The claim is about the paper's algorithm, so the tight form does not count for the verdict.
    holds: Holds = "not tested"
    if "paper" in exponents:
        holds = abs(exponents["paper"] - 0.5) < 0.15
    return CLAIMS.claim(
        "ridges",
        holds,
        exponents,
        ridges=len(curves.ridges),
        measured="; ".join(texts),
    )


def _aggregation(curves: Curves) -> tuple[Claim, ...]:
    users = 1e5
    largest = curves.sizes[-1]
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
