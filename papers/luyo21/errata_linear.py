"""The errata of [Luyo21] on linear MDPs (Alg. 2, App. E), with the computations that show them."""

import math
from pathlib import Path

from confide.linear_mdps.printed import LinearSetting, printed_linear
from confide.privacy.loss import compose
from confide.privacy.request import JointDP
from papers.findings import Erratum, short
from papers.fits import exponent
from papers.luyo21.bounds import best_batches, linear_bound, mended_bound
from papers.text import Texts

ERRATA = Texts(Path(__file__).with_name("errata.toml"))
_PRIVACY = JointDP(1.0, 1e-5)
_SETTING = LinearSetting(100_000, 5, 5)
_LARGE = 1e90  # episodes, where logarithms hardly count


def errata() -> tuple[Erratum, ...]:
    return (
        missing_constants(),
        number_of_batches(),
        last_release(),
        tree_twice(),
        without_batches(),
        pure_batches(),
    )


def missing_constants() -> Erratum:
    constants = printed_linear(_PRIVACY, _SETTING)
    d = 5
    enough, without = (
        d * math.log1p(2 * constants.upsilon / shift)
        for shift in (constants.shift, constants.upsilon)
    )
    return ERRATA.erratum(
        "missing-constants",
        enough <= 2 < without,
        {"enough": enough, "without": without, "shift": constants.shift},
        enough=enough,
        without=without,
        shift=short(constants.shift),
        response_norm=short(constants.response_norm),
        weight_norm=short(constants.weight_norm),
        chi=short(constants.chi),
    )


def number_of_batches() -> Erratum:
    small = JointDP(1e-3, 1e-5)
    in_d = exponent(lambda d: best_batches(small, _LARGE, 5, int(d)), 1e5)
    in_K = exponent(lambda K: best_batches(small, K, 5, 5), _LARGE)
    return ERRATA.erratum(
        "number-of-batches",
        abs(in_d + 0.6) < 0.05 and abs(in_K - 0.4) < 0.05,
        {"in_d": in_d, "in_K": in_K},
        in_d=in_d,
        in_K=in_K,
    )


def last_release() -> Erratum:
    constants = printed_linear(_PRIVACY, _SETTING)
    whole, used = (
        compose(
            constants.losses(
                _PRIVACY, 5, 5, leaves=constants.batches - less, changes=constants.batches - less
            ),
            delta=1e-5,
        ).epsilon_at(1e-5)
        for less in (0, 1)
    )
    return ERRATA.erratum(
        "last-release",
        used < whole,
        {"whole": whole, "used": used},
        batches=constants.batches,
        whole=short(whole),
        used=short(used),
    )


def tree_twice() -> Erratum:
    constants = printed_linear(_PRIVACY, _SETTING)
    H = 5
    delta = 1e-5
    share = 1 / (2 * math.sqrt(8 * H * math.log(4 / delta)))
    failing = delta / (4 * H)
    nodes = (
        2
        * math.sqrt(2 * math.log(4 * constants.levels / failing))
        / share
        * math.sqrt(8 * constants.levels * math.log(2 / failing))
    )
    small = JointDP(1e-3, 1e-5)
    printed = exponent(lambda d: linear_bound(small, _LARGE, 5, int(d)), 1e5)
    mended = exponent(lambda d: mended_bound(small, _LARGE, 5, int(d)), 1e5)
    same = exponent(lambda K: mended_bound(small, K, 5, 5), _LARGE)
    return ERRATA.erratum(
        "tree-twice",
        constants.sigma_gram > 5 * nodes
        and abs(printed - 1.6) < 0.1
        and abs(mended - 1) < 0.05
        and abs(same - 0.6) < 0.03,
        {
            "needed": nodes,
            "printed": constants.sigma_gram,
            "in_d_printed": printed,
            "in_d_mended": mended,
        },
        nodes=short(nodes),
        sigma_gram=short(constants.sigma_gram),
        factor=constants.sigma_gram / nodes,
        batches=constants.batches,
        printed=printed,
        mended=mended,
        same=same,
    )


def without_batches() -> Erratum:
    small = JointDP(1e-3, 1e-5)

    def bound(d: float) -> float:
        return linear_bound(small, _LARGE, 5, int(d), batches=int(_LARGE))

    in_d = exponent(bound, 1e7)
    return ERRATA.erratum("without-batches", abs(in_d - 1.75) < 0.06, {"in_d": in_d}, in_d=in_d)


def pure_batches() -> Erratum:
    pure = JointDP(1e-3, delta=0.0)
    in_d = exponent(lambda d: best_batches(pure, _LARGE, 5, int(d)), 1e5)
    in_K = exponent(lambda K: best_batches(pure, K, 5, 5), _LARGE)
    in_H = exponent(lambda H: best_batches(pure, _LARGE, int(H), 5), 1e5)
    approximate = printed_linear(JointDP(1.0, 1e-5), LinearSetting(10**9, 5, 5)).batches
    exact = printed_linear(JointDP(1.0, delta=0.0), LinearSetting(10**9, 5, 5)).batches
    return ERRATA.erratum(
        "pure-batches",
        abs(in_K - 1 / 3) < 0.05
        and abs(in_d + 2 / 3) < 0.05
        and abs(in_H + 1 / 3) < 0.05
        and exact < approximate,
        {
            "in_K": in_K,
            "in_d": in_d,
            "in_H": in_H,
            "pure": float(exact),
            "approximate": float(approximate),
        },
        in_K=in_K,
        in_d=in_d,
        in_H=in_H,
        exact=exact,
        approximate=approximate,
    )
