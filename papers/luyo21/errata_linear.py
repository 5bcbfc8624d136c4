"""The errata of [Luyo21] on linear MDPs (Alg. 2, App. E), each with the computation that shows it."""

import math

from confide.linear_mdps.printed import LinearSetting, printed_linear
from confide.privacy.loss import compose
from confide.privacy.request import JointDP
from papers.findings import Erratum, short
from papers.fits import exponent
from papers.luyo21.bounds import best_batches, linear_bound, mended_bound

_PRIVACY, _SETTING = JointDP(1.0, 1e-5), LinearSetting(100_000, 5, 5)
_AT = "K = 1e5, H = d = 5, epsilon = 1, delta = 1e-5, p = .1"
_LARGE = 1e90  # episodes, where logarithms hardly count


def errata() -> tuple[Erratum, ...]:
    return missing_constants(), number_of_batches(), last_release(), tree_twice(), without_batches(), pure_batches()


def missing_constants() -> Erratum:
    made, d = printed_linear(_PRIVACY, _SETTING), 5
    enough, without = (d * math.log1p(2 * made.upsilon / shift) for shift in (made.shift, made.upsilon))
    return Erratum(
        13,
        "App. E.1",
        "The list of parameters has no c_K, chi, U_K or C, which Alg. 2 and beta need.",
        "c_K = d Upsilon is what (20) in the proof of Lemma 25 needs; U_K is Lemma 19, chi Lemma 20, C Claim 27.",
        f"(20) bounds a logarithm by 2: it is {enough:.2f} with c_K = d Upsilon, {without:.2f} with c_K = Upsilon. The constants are then "
        f"c_K = {short(made.shift)}, C = {short(made.response_norm)}, U_K = {short(made.weight_norm)}, chi = {short(made.chi)}.",
        enough <= 2 < without,
        f"`linear_mdps/printed.py: printed_linear`, {_AT}",
        {"enough": enough, "without": without, "shift": made.shift},
    )


def number_of_batches() -> Erratum:
    small = JointDP(1e-3, 1e-5)
    in_d = exponent(lambda d: best_batches(small, _LARGE, 5, int(d)), 1e5)
    in_K = exponent(lambda K: best_batches(small, K, 5, 5), _LARGE)
    return Erratum(
        14,
        "Sec. 4.1 against E.1, E.2 and Remark 3",
        "B = (K epsilon)^(2/5) / (d^(2/5) H^(1/5)) in the sketch of the proof, with d^(3/5) elsewhere.",
        "d^(3/5): that B balances the two terms of (22).",
        f"The B that makes (22) smallest has exponent {in_d:.2f} in d and {in_K:.2f} in K.",
        abs(in_d + 0.6) < 0.05 and abs(in_K - 0.4) < 0.05,
        "`papers/luyo21/bounds.py: best_batches`, K = 1e90, epsilon = 1e-3",
        {"in_d": in_d, "in_K": in_K},
    )


def last_release() -> Erratum:
    made = printed_linear(_PRIVACY, _SETTING)
    whole, used = (
        compose(made.losses(_PRIVACY, 5, 5, leaves=made.batches - less, changes=made.batches - less), delta=1e-5).epsilon_at(1e-5)
        for less in (0, 1)
    )
    return Erratum(
        15,
        "Alg. 2, E.2.1",
        'The budget is divided among B releases; "the adversary observes only B - 1 changes".',
        "B - 1: no user follows the last batch, and its release is not used.",
        f"B = {made.batches}: true epsilon {short(whole)} for B releases, {short(used)} for B - 1.",
        used < whole,
        f"`linear_mdps/printed.py: PrintedLinear.losses`, {_AT}",
        {"whole": whole, "used": used},
    )


def tree_twice() -> Erratum:
    made, H, delta = printed_linear(_PRIVACY, _SETTING), 5, 1e-5
    share, failing = 1 / (2 * math.sqrt(8 * H * math.log(4 / delta))), delta / (4 * H)
    nodes = 2 * math.sqrt(2 * math.log(4 * made.levels / failing)) / share * math.sqrt(8 * made.levels * math.log(2 / failing))
    small = JointDP(1e-3, 1e-5)
    printed = exponent(lambda d: linear_bound(small, _LARGE, 5, int(d)), 1e5)
    mended = exponent(lambda d: mended_bound(small, _LARGE, 5, int(d)), 1e5)
    same = exponent(lambda K: mended_bound(small, K, 5, 5), _LARGE)
    return Erratum(
        16,
        "E.1, E.2.1",
        "sigma_Lambda = (128/epsilon) sqrt(B H B_0) log^2(...): each of the B prefix sums is made private, and then composed over all B.",
        "A tree needs no composition over its outputs: a user is in at most B_0 nodes, noise is added once to each, and all "
        "prefix sums are functions of the nodes. The factor sqrt(B) is not needed. Without it the same proof, with c_K as large "
        "as Lemma 21 and Lemma 25 need, gives d in place of d^(8/5) in the bound of Thm. 8.",
        f"By the paper's own steps {short(nodes)} is enough where {short(made.sigma_gram)} is printed, {made.sigma_gram / nodes:.0f} times "
        f"as much (B = {made.batches}). Exponent of d in (22): {printed:.2f} printed, {mended:.2f} corrected; of K {same:.2f}.",
        made.sigma_gram > 5 * nodes and abs(printed - 1.6) < 0.1 and abs(mended - 1) < 0.05 and abs(same - 0.6) < 0.03,
        f"`papers/luyo21/bounds.py: mended_bound`; {_AT}; exponents at K = 1e90, epsilon = 1e-3",
        {"needed": nodes, "printed": made.sigma_gram, "in_d_printed": printed, "in_d_mended": mended},
    )


def without_batches() -> Erratum:
    small = JointDP(1e-3, 1e-5)

    def bound(d: float) -> float:
        return linear_bound(small, _LARGE, 5, int(d), batches=int(_LARGE))

    in_d = exponent(bound, 1e7)
    return Erratum(
        17,
        "Remark 7",
        "Without batches (B = K) beta = O~(dH + d^(3/4) H^(5/4) K^(1/4)/sqrt(epsilon)), and the regret has d^(5/4) H^(9/4) K^(3/4)/"
        "sqrt(epsilon).",
        "beta has d^(5/4) and R has d^(7/4): c_K = d Upsilon, not Upsilon.",
        f"Exponent of d in (22) with the constants of E.1 and B = K: {in_d:.2f}.",
        abs(in_d - 1.75) < 0.06,
        "`papers/luyo21/bounds.py: linear_bound`, K = 1e90, d from 1e7 to 1e10",
        {"in_d": in_d},
    )


def pure_batches() -> Erratum:
    pure = JointDP(1e-3, delta=0.0)
    in_d = exponent(lambda d: best_batches(pure, _LARGE, 5, int(d)), 1e5)
    in_K = exponent(lambda K: best_batches(pure, K, 5, 5), _LARGE)
    in_H = exponent(lambda H: best_batches(pure, _LARGE, int(H), 5), 1e5)
    approximate = printed_linear(JointDP(1.0, 1e-5), LinearSetting(10**9, 5, 5)).batches
    exact = printed_linear(JointDP(1.0, delta=0.0), LinearSetting(10**9, 5, 5)).batches
    return Erratum(
        18,
        "E.3",
        'B is not legible in the copy that was read; "we get a strictly polynomially bigger number of batches in this case".',
        "B = (K epsilon)^(1/3) / (d^(2/3) H^(1/3)), from which the printed regret follows; that is fewer batches than (K epsilon)^(2/5), "
        "not more.",
        f"The B that makes (22) smallest has exponents {in_K:.2f} in K, {in_d:.2f} in d, {in_H:.2f} in H. At K = 1e9 (H = d = 5, epsilon = "
        f"1): {exact} batches at delta = 0, {approximate} at delta = 1e-5.",
        abs(in_K - 1 / 3) < 0.05 and abs(in_d + 2 / 3) < 0.05 and abs(in_H + 1 / 3) < 0.05 and exact < approximate,
        "`papers/luyo21/bounds.py: best_batches`, K = 1e90, epsilon = 1e-3",
        {"in_K": in_K, "in_d": in_d, "in_H": in_H, "pure": float(exact), "approximate": float(approximate)},
    )
