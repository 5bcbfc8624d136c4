"""[Luyo21]: UCRL-VTR, UCRL-VTR+ and batched LSVI-UCB under joint and local privacy, and Table 1."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from confide.linear_mdps.printed import LinearSetting, printed_linear, useful_from
from confide.mixtures.printed import MixtureSetting, printed, printed_plus
from confide.privacy.accounting import gaussian_mu
from confide.privacy.loss import GaussianDP, Loss, compose
from confide.privacy.request import JointDP, LocalDP, Request
from confide.runs.spec import RunSpec
from papers.findings import Algorithm, Claim, Reproduction, Say, Table, short
from papers.fits import exponent
from papers.luyo21 import errata as luyo21_errata
from papers.luyo21 import errata_linear as luyo21_errata_linear
from papers.luyo21 import table as luyo21_table
from papers.luyo21.bounds import (
    lemma_21_width,
    linear_bound,
    linear_bound_of_orders,
    mixture_bound,
    mixture_bound_of_orders,
    nontrivial_from,
    plus_bound,
)
from papers.runs import case, measure_runs
from papers.text import Texts

CLAIMS = Texts(Path(__file__).with_name("claims.toml"))
K = 100_000
H = 5
D = 5
DELTA = 1e-5
SETTING = MixtureSetting(K, H, D)
LINEAR = LinearSetting(K, H, D)
# Growth in d is measured between these dimensions.
SMALLEST_DIMENSION = 1e7
LARGEST_DIMENSION = 1e10
_AT = "K = 1e5, H = d = 5, p = .1"


def reproduce(quick: bool, say: Say, users: int | None = None) -> Reproduction:
    say("constants and theorems")
    calibrations = (
        *(promise(one) for one in CONSTANTS),
        *widths(),
        *norms(),
        *(rates(one) for one in CONSTANTS),
    )
    say("errata")
    errata = (*luyo21_errata.errata(), *luyo21_errata_linear.errata())
    say("algorithms")
    algorithms = run_all(quick)
    measured_rows = luyo21_table.measure(quick, say, users)
    return Reproduction(
        "luyo21",
        "[Luyo21]",
        "Luyo, Garcelon, Lazaric, Pirotta: Differentially Private Exploration in Reinforcement "
        "Learning with Linear Representation. 2021",
        quick,
        calibrations,
        algorithms,
        luyo21_table.claims(measured_rows, quick, say),
        errata,
        (constants(), luyo21_table.table(measured_rows), luyo21_table.cited_rows(quick, say)),
        (luyo21_table.figure(measured_rows),),
    )


@dataclass(frozen=True, slots=True)
class Constants:
    """A theorem or corollary with its noise."""

    locator: str
    local: bool
    pure: bool
    # the constants as text, and their exact privacy loss
    noise: Callable[[Request], tuple[str, Loss]]
    # The bound on regret with noise that is enough for the guarantee.
    bound: Callable[..., float]
    # The claimed exponents of K, 1/epsilon, d (with C_w = sqrt(d)) and H.
    exponents: tuple[float, float, float, float]
    # The number of episodes at which logarithms and smaller terms hardly count.
    far: float = 1e100
    # For a pure variant, the bound with noise of the order that the paper prints.
    bound_of_orders: Callable[..., float] | None = None

    @property
    def judged_bound(self) -> Callable[..., float]:
        """The bound whose exponents are compared with the claimed ones."""
        return self.bound_of_orders or self.bound

    def request(self, epsilon: float) -> Request:
        return (LocalDP if self.local else JointDP)(epsilon, 0.0 if self.pure else DELTA)


def _mixture(privacy: Request) -> tuple[str, Loss]:
    numbers = printed(privacy, SETTING)
    return (
        f"sigma {short(numbers.sigma)}, Upsilon {short(numbers.upsilon)}, "
        f"beta {short(numbers.beta)}",
        numbers.loss,
    )


def _plus(privacy: Request) -> tuple[str, Loss]:
    numbers = printed_plus(privacy, SETTING)
    check, hat, tilde = numbers.widths(K)
    return (
        f"sigma {short(numbers.sigma[0])}, {short(numbers.sigma[1])}, "
        f"Upsilon {short(numbers.upsilon[0])}, {short(numbers.upsilon[1])}, "
        f"beta (check, hat, tilde) {short(check)}, {short(hat)}, {short(tilde)}",
        numbers.loss,
    )


def _linear(privacy: Request) -> tuple[str, Loss]:
    numbers = printed_linear(privacy, LINEAR)
    text = (
        f"B {numbers.batches}, sigma_Lambda {short(numbers.sigma_gram)}, "
        f"sigma_u {short(numbers.sigma_response)}, Upsilon {short(numbers.upsilon)}, "
        f"c_K {short(numbers.shift)}, beta {short(numbers.beta)}"
    )
    return text, compose(numbers.losses(privacy, H, D), delta=privacy.delta)


CONSTANTS = (
    Constants("Cor. 5", False, False, _mixture, mixture_bound, (1 / 2, 1 / 2, 5 / 4, 9 / 4)),
    Constants("Cor. 6", True, False, _mixture, mixture_bound, (3 / 4, 1 / 2, 5 / 4, 5 / 2)),
    Constants("Cor. 10", False, False, _plus, plus_bound, (1 / 2, 1 / 2, 7 / 4, 9 / 4), 1e145),
    Constants("Cor. 11", True, False, _plus, plus_bound, (3 / 4, 1 / 2, 7 / 4, 5 / 2), 1e145),
    Constants("Thm. 8, E.1", False, False, _linear, linear_bound, (3 / 5, 2 / 5, 8 / 5, 11 / 5)),
    Constants(
        "Remark 1, C.4, joint",
        False,
        True,
        _mixture,
        mixture_bound,
        (1 / 2, 1 / 2, 3 / 2, 5 / 2),
        bound_of_orders=mixture_bound_of_orders,
    ),
    Constants(
        "Remark 1, C.4, local",
        True,
        True,
        _mixture,
        mixture_bound,
        (3 / 4, 1 / 2, 3 / 2, 5 / 2),
        bound_of_orders=mixture_bound_of_orders,
    ),
    Constants(
        "Remark 2, E.3",
        False,
        True,
        _linear,
        linear_bound,
        (2 / 3, 1 / 3, 5 / 3, 7 / 3),
        bound_of_orders=linear_bound_of_orders,
    ),
)


def constants() -> Table:
    rows = []
    for one in CONSTANTS:
        for epsilon in (0.1, 0.5, 1.0):
            request = one.request(epsilon)
            text, loss = one.noise(request)
            rows.append(
                (
                    one.locator,
                    str(request),
                    text,
                    short(loss.epsilon_at(request.delta)),
                    _slack(request, loss),
                )
            )
    headings = ("where", "request", "constants", "true epsilon", "noise / noise needed")
    note = (
        f"{_AT}. The true epsilon is that of all releases together, by exact accounting, with the "
        "actual sensitivities of features and values. The noise needed is that for the same "
        "queries through the same tree, or on the same device. Below 1 the guarantee does not "
        "hold. For delta = 0 the paper prints orders of growth only. There the constants are "
        "ours and follow from its proofs with the true L1 sensitivities. The paper states its "
        "results for epsilon below 1, and epsilon = 1 is the end of that range."
    )
    return Table(
        "Noise, shift and width with the paper's constants, and their exact privacy loss",
        headings,
        tuple(rows),
        note,
    )


def _slack(request: Request, loss: Loss) -> str:
    if isinstance(loss, GaussianDP):
        return short(gaussian_mu(request.epsilon, request.delta) / loss.mu)
    return short(request.epsilon / loss.epsilon_at(0.0))


def promise(one: Constants) -> Claim:
    request = one.request(1.0)
    text, loss = one.noise(request)
    true = loss.epsilon_at(request.delta)
    kind = "LDP" if one.local else "JDP"
    return CLAIMS.claim(
        "promise",
        # Without printed constants there is nothing that could be false.
        None if one.pure else true <= 1,
        {"epsilon": true},
        locator=one.locator,
        requested="epsilon, 0" if one.pure else "epsilon, delta",
        kind=kind,
        noise="Laplace noise, of which the paper prints the order only (the constants are ours)"
        if one.pure
        else "the noise of the paper's constants",
        at_delta="" if one.pure else ", delta = 1e-5",
        text=text,
        true=short(true),
        package="linear_mdps" if one.bound is linear_bound else "mixtures",
    )


def _noise_part(
    privacy: Request, sigma: float, upsilon: float, ridge: float, unions: int
) -> tuple[float, float]:
    """The part of a width that accounts for the noise, and its required minimum.

    The minimum is that of Thm. 7, condition 3, and of Thm. 9, (5).
    """
    C_w = math.sqrt(D)
    noises = K if isinstance(privacy, LocalDP) else SETTING.levels
    C = sigma * math.sqrt(noises) * (math.sqrt(D) + 2 * math.sqrt(math.log(unions * K * H / 0.1)))
    root = math.sqrt(ridge + upsilon)
    return 3 * (C_w + 1) * root, ((ridge + 3 * upsilon) * C_w + C) / root


def widths() -> tuple[Claim, ...]:
    """The conditions that the corollaries must meet, in numbers."""
    promises: tuple[tuple[str, Request], ...] = (
        ("joint", JointDP(1.0, DELTA)),
        ("local", LocalDP(1.0, DELTA)),
    )
    plain = []
    plus = []
    for name, privacy in promises:
        one = printed(privacy, SETTING)
        two = printed_plus(privacy, SETTING)
        plain.append((name, *_noise_part(privacy, one.sigma, one.upsilon, one.ridge, 6)))
        plus += [
            (f"{name} {i + 1}", *_noise_part(privacy, two.sigma[i], two.upsilon[i], two.ridge, 24))
            for i in (0, 1)
        ]
    linear = printed_linear(JointDP(1.0, DELTA), LINEAR)
    need = lemma_21_width(
        linear, H, D, shift=linear.shift, upsilon=linear.upsilon, response=linear.response_norm
    )
    useful = useful_from(JointDP(1.0, DELTA), horizon=H, dimension=D)
    return (
        *(
            CLAIMS.claim(
                "widths",
                all(have >= need for _, have, need in rows),
                {name: have / need for name, have, need in rows},
                locator=locator,
                corollaries=corollaries,
                parts=", ".join(
                    (
                        f"{short(have)} where {short(need)} is needed ({name})"
                        for name, have, need in rows
                    )
                ),
            )
            for locator, corollaries, rows in (
                ("Thm. 7, condition 3", "Cor. 5 and 6", plain),
                ("Thm. 9, (5)", "Cor. 10 and 11", plus),
            )
        ),
        CLAIMS.claim(
            "lemma-21",
            linear.beta >= need,
            {"beta": linear.beta, "needed": need, "useful_from": float(useful)},
            beta=short(linear.beta),
            need=short(need),
            factor=linear.beta / need,
            useful=short(useful),
        ),
    )


def norms() -> tuple[Claim, ...]:
    """Claims 26 to 29: how often norms of noise leave their bounds."""
    rng = np.random.default_rng(0)
    draws = 20_000
    alpha = 0.1
    log = math.log(1 / alpha)
    z = rng.standard_normal((draws, D, D))
    mirrored = np.triu(z) + np.triu(z, 1).swapaxes(1, 2)
    laplace = rng.laplace(size=(draws, D, D))
    many = math.log(D / alpha)
    cases = (
        ("Claim 26", np.linalg.norm(mirrored, 2, axis=(1, 2)), 4 * math.sqrt(D) + 2 * log),
        ("Claim 27", np.linalg.norm(z[:, 0], axis=1), math.sqrt(D) + 2 * math.sqrt(log)),
        ("Claim 28", np.linalg.norm(laplace[:, 0], axis=1), math.sqrt(D) * many),
        (
            "Claim 29",
            np.linalg.norm((laplace + laplace.swapaxes(1, 2)) / 2, 2, axis=(1, 2)),
            2 * D + 2 * math.sqrt(D * many) + many,
        ),
    )
    return tuple(
        CLAIMS.claim(
            "norms",
            bool((samples > bound).mean() <= alpha),
            {"bound": bound, "quantile": float(np.quantile(samples, 1 - alpha))},
            locator=locator,
            bound=bound,
            above=int((samples > bound).sum()),
            draws=draws,
            quantile=np.quantile(samples, 1 - alpha),
            # Claim 29 is stated for a symmetric Z' and proved for one with independent entries.
            drawn=" (Z' with independent entries, as in the proof)"
            if locator == "Claim 29"
            else "",
        )
        for locator, samples, bound in cases
    )


def rates(one: Constants) -> Claim:
    """The claimed exponents against those of the proof's own bound, where logarithms hardly count.

    At delta = 0 the paper prints the order of the noise only. All pure variants are judged with
    noise of this order. The row also has the exponent of d with enough noise for the guarantee.
    """
    small = one.request(1e-6)
    far = one.far
    measured_exponents = (
        exponent(lambda n: one.judged_bound(one.request(1.0), n), far),
        -exponent(lambda epsilon: one.judged_bound(one.request(epsilon), far), 1e-9),
        exponent(
            lambda d: one.judged_bound(small, far, H, int(d)),
            SMALLEST_DIMENSION,
            factor=LARGEST_DIMENSION / SMALLEST_DIMENSION,
        ),
        exponent(lambda h: one.judged_bound(small, far, int(h), D), 1e4),
    )
    names = ("K", "1/epsilon", "d", "H")
    measured_text = ", ".join(
        f"{value:.2f} in {name}" for name, value in zip(names, measured_exponents, strict=True)
    )
    claimed_text = ", ".join(
        f"{value:.3g} in {name}" for name, value in zip(names, one.exponents, strict=True)
    )
    nontrivial = nontrivial_from(lambda n: one.judged_bound(one.request(1.0), n))
    numbers = dict(zip(("K", "epsilon", "d", "H"), measured_exponents, strict=True))
    numbers["nontrivial_from"] = nontrivial
    whose = "The proof's bound with its constants"
    enough_noise = ""
    if one.pure:
        whose = "The proof's bound with Laplace noise of the order that the paper prints"
        numbers["d_enough_noise"] = _exponent_of_d_with_enough_noise(one)
        enough_noise = (
            " This noise is too little for pure differential privacy (erratum 4). With enough "
            "noise, which is what the runs have, "
            f"the exponent of d is {numbers['d_enough_noise']:.2f} (from d = 3,000 to 30,000)."
        )
    pairs = zip(measured_exponents, one.exponents, strict=True)
    return CLAIMS.claim(
        "rates",
        all(abs(value - claimed) < 0.06 for value, claimed in pairs),
        numbers,
        locator=one.locator,
        claimed=claimed_text,
        whose=whose,
        measured=measured_text,
        start=short(nontrivial),
        enough_noise=enough_noise,
        far=far,
    )


def _exponent_of_d_with_enough_noise(one: Constants) -> float:
    """The exponent of d with our constants, which follow from the true L1 sensitivities.

    The L1 sensitivity has a term for the rounding of d^2 numbers, which counts above d = 1e5. So
    growth is measured below that.
    """
    small = one.request(1e-6)
    return exponent(lambda d: one.bound(small, one.far, H, int(d)), 3e3, factor=10)


def run_all(quick: bool) -> tuple[Algorithm, ...]:
    joint = JointDP(1.0, DELTA)
    local = LocalDP(1.0, DELTA)
    many, few = (10_000, 20) if quick else (100_000, 1_000)
    seeds = range(2 if quick else 8)

    def both(
        agent: str, problem: str, promises: tuple[Request, ...], far: int = 1
    ) -> tuple[RunSpec, ...]:
        ours = [
            case(agent, problem, privacy, many * (far if isinstance(privacy, LocalDP) else 1))
            for privacy in promises
        ]
        return (*ours, *(replace(spec, episodes=few).with_paper_constants() for spec in ours))

    chosen = (
        (
            "Alg. 1",
            "Privacy-Preserving UCRL-VTR",
            "mixtures/ucrl_vtr.py: UCRLVTR",
            both("ucrl-vtr", "lock", (joint, local), 40),
        ),
        (
            "Alg. 2",
            "Privacy-Preserving LSVI-UCB through Batching and JDP",
            "linear_mdps/lsvi_ucb.py: LSVIUCB",
            both("lsvi-ucb", "latent", (joint,)),
        ),
        (
            "Alg. 3",
            "Privacy-Preserving UCRL-VTR+",
            "mixtures/ucrl_vtr_plus.py: UCRLVTRPlus",
            both("ucrl-vtr-plus", "lock", (joint, local), 40),
        ),
    )
    return tuple(
        Algorithm(
            locator,
            name,
            place,
            tuple(
                measure_runs(spec, seeds if spec.episodes > 1_000 else seeds[:2]) for spec in cases
            ),
        )
        for locator, name, place, cases in chosen
    )
