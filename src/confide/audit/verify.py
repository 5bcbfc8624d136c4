"""Recompute the guarantee of a certificate from its numbers."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass

from confide.arguments import kind
from confide.control.contributions import ControlRows, ResidualRows
from confide.errors import CertificateError, ConfideError, InvalidParameter
from confide.evaluation.contributions import Bands
from confide.evaluation.row_contributions import VisitRows
from confide.evaluation.visit_contributions import FirstVisits
from confide.evaluation.weight_contributions import ReturnRow
from confide.linear_mdps.contributions import NextStateRows
from confide.mechanisms.additive import NORMS, loss_of, sensitivity_of
from confide.mechanisms.codebook import Codebook, SignReport
from confide.mechanisms.counters import FACTORISATIONS
from confide.mechanisms.sources import shell_width
from confide.mixtures.code_contributions import TableRows
from confide.mixtures.contributions import StackedRows
from confide.mixtures.questions.contributions import Answers
from confide.offline.gain_contributions import Moments
from confide.offline.transition_contributions import RootCounts
from confide.privacy.assumption import standing_assumptions
from confide.privacy.bounded import Bound, L2Ball
from confide.privacy.certificate import (
    Certificate,
    Json,
    check_schema,
)
from confide.privacy.discrete_sums import sum_epsilon
from confide.privacy.loss import (
    NO_PRIVACY,
    ApproxDP,
    GaussianDP,
    Loss,
    PureDP,
    compose,
    loss_from_json,
)
from confide.privacy.request import Relation, Trust
from confide.release.logged_returns import ReturnMoments
from confide.statistics.bounds import RegressionRows, WeightedRows
from confide.tables.contributions import BudgetedCounts

_TOLERANCE = 1e-6  # relative: what rounding, and the discretisation of a PLD, may add up to
_OVERSTATED = 1e-3
_MOST_LEAVES = 2**26
_TRUST = {
    "CentralDP": {"central", "local"},
    "JointDP": {"joint", "central", "local"},
    "LocalDP": {"local"},
    "DistributedDP": {"distributed"},
    "NoPrivacy": {"none"},
}
# By the kind of their identity.
_BOUNDS: dict[str, Callable[..., Bound]] = {
    "l2-ball": L2Ball,
    "regression-rows": RegressionRows,
    "weighted-rows": WeightedRows,
    "stacked-rows": StackedRows,
    "table-rows": TableRows,
    "next-state-rows": NextStateRows,
    "budgeted-counts": BudgetedCounts,
    "control-rows": ControlRows,
    "residual-rows": ResidualRows,
    "first-visits": FirstVisits,
    "visit-rows": VisitRows,
    "bands": Bands,
    "return-row": ReturnRow,
    "return-moments": ReturnMoments,
    "answers": Answers,
    "root-counts": RootCounts,
    "moments": Moments,
}


@dataclass(frozen=True, slots=True)
class Verification:
    """The recomputed guarantee. It is returned only if the certificate's numbers are consistent."""

    epsilon: float
    delta: float
    losses: tuple[Loss, ...]  # of each mechanism


def verify(certificate: Certificate) -> Verification:
    """Raise `CertificateError` unless the mechanisms' sensitivities and noise give the stated and the requested guarantee."""
    check_schema(kind("certificate", certificate, Certificate).document)
    return verify_numbers(certificate)


def verify_numbers(certificate: Certificate) -> Verification:
    """Do what `verify` does for a certificate whose document is known to follow the schema.

    `certify` checks the schema of what it makes. This check takes longer than all others, so
    whoever verifies a certificate that was just made does not repeat it.
    """
    document = certificate.document
    promise = document["guarantee"]
    request = promise["request"]
    _check(
        promise["trust"] in _TRUST[request["kind"]],
        f"the request is {request['kind']}, but the guarantee has {promise['trust']} trust",
    )
    losses = tuple(
        _checked_loss(mechanism, promise, i)
        for i, mechanism in enumerate(document["mechanisms"], start=1)
    )
    delta = certificate.delta
    stated = loss_from_json(promise["loss"])
    pure = isinstance(stated, PureDP) and all(isinstance(loss, PureDP) for loss in losses)
    try:
        together = compose(losses, delta=0.0 if pure else delta)
    except InvalidParameter as error:
        raise CertificateError(
            f"the mechanisms give no epsilon at delta={delta:g}: {error}"
        ) from None
    epsilon = together.epsilon_at(delta)
    _check(
        promise["relation"] == request["relation"],
        f"the request has the relation {request['relation']}, but the guarantee {promise['relation']}",
    )
    replaces = promise["relation"] == "replace" or request["kind"] not in (
        "LocalDP",
        "DistributedDP",
    )
    _check(replaces, f"{request['kind']} needs the relation replace")
    _check_assumptions(certificate, promise)
    if request["kind"] == "NoPrivacy":
        _check(
            promise["epsilon"] is None and stated == NO_PRIVACY,
            "no privacy was requested, but a guarantee is stated",
        )
        _check(promise["source"] == "none", "no privacy was requested, but a noise source is named")
        return Verification(epsilon, delta, losses)
    _check(promise["source"] != "none", "a guarantee is stated, but no noise source is named")
    _check(
        delta <= request["delta"] * (1 + _TOLERANCE),
        f"the request has delta={request['delta']:g}, but the guarantee {delta:g}",
    )
    _check(
        promise["epsilon"] is not None and request["epsilon"] is not None,
        "privacy was requested, but no epsilon is stated",
    )
    _check(NO_PRIVACY not in losses, "a guarantee is stated, but a mechanism adds no noise")
    _check(
        _covers(stated, together),
        f"the stated loss is {stated}, but the mechanisms give {together}",
    )
    given = f"the mechanisms give {epsilon:.6g} at delta={delta:g}"
    _check(
        _close(epsilon, certificate.epsilon),
        f"epsilon={certificate.epsilon:.6g} is stated, but {given}",
    )
    _check(
        epsilon <= request["epsilon"] * (1 + _TOLERANCE),
        f"epsilon={request['epsilon']:.6g} was requested, but {given}",
    )
    return Verification(epsilon, delta, losses)


def _check_assumptions(certificate: Certificate, promise: Json) -> None:
    """All that the guarantee needs are stated, and none that denies its noise."""
    needed = [
        each.kind for each in standing_assumptions(Trust(promise["trust"]), promise["source"])
    ]
    stated = {assumption.kind for assumption in certificate.assumptions}
    missing = [kind for kind in needed if kind not in stated]
    _check(not missing, f"an assumption is missing: {', '.join(missing[:1])}")
    denied = {"fast-noise", "no-noise"} & stated - set(needed)
    _check(
        not denied,
        f"the noise is {promise['source']}, which contradicts {', '.join(sorted(denied))}",
    )


def _close(true: float, stated: float) -> bool:
    """Not more than is stated, and not much less either: a number that is merely safe was not computed from these mechanisms."""
    return true <= stated * (1 + _TOLERANCE) and stated <= true * (1 + _OVERSTATED)


def _covers(stated: Loss, given: Loss) -> bool:
    """Whether the stated loss is of the same kind as the given one, and of the same size."""
    match stated, given:
        case GaussianDP(mu), GaussianDP(true_mu):
            return _close(true_mu, mu)
        case PureDP(epsilon), PureDP(true_epsilon):
            return _close(true_epsilon, epsilon)
        case ApproxDP(epsilon, delta), ApproxDP(true_epsilon, true_delta):
            return _close(true_epsilon, epsilon) and _close(true_delta, delta)
    return False


def _checked_loss(mechanism: Json, promise: Json, position: int) -> Loss:
    try:
        return _loss(mechanism, promise)
    except ConfideError as error:
        message = str(error)
    except (ArithmeticError, ValueError, AttributeError, TypeError, MemoryError):
        message = "its numbers are out of range"
    raise CertificateError(f"mechanism {position} ({mechanism['name']}): {message}")


def _loss(mechanism: Json, promise: Json) -> Loss:
    """A mechanism's loss, from its sensitivity, its noise and how often it looks at one user."""
    name, distribution = mechanism["name"], mechanism["distribution"]
    if distribution == "none":
        return NO_PRIVACY
    for trust in ("local", "distributed"):
        _check(
            (name == trust) == (promise["trust"] == trust),
            f"the guarantee has {promise['trust']} trust",
        )
    if name == "distributed":
        return _shared_loss(mechanism, promise)
    if name == "smooth":
        _check(distribution == "gaussian", "smooth sensitivity takes Gaussian noise")
        _check(
            mechanism.get("sensitivity") is None and mechanism.get("scale") is None,
            "smooth sensitivity and noise depend on the data",
        )
        return _smooth_loss(mechanism["parameters"])
    if distribution in ("codebook", "signs"):
        return _report_loss(mechanism)
    norm = NORMS[distribution]
    _check(
        name != "local" or distribution in ("gaussian", "laplace"),
        f"a device does not add noise from a {distribution}",
    )
    _check(name != "rounds" or distribution == "cube", "rounds have noise from a cube")
    _check(mechanism["norm"] == norm, f"{distribution} noise needs the L{norm} sensitivity")
    _check(mechanism["scale"] > 0, "the noise has scale 0")
    _check(
        (promise["source"] == "secure") == (mechanism["lattice"] is not None),
        "secure noise needs a lattice, and fast noise must not have one",
    )
    _check_bound(mechanism, promise, norm)
    sensitivity = mechanism["sensitivity"] * _stream_norm(mechanism, promise)
    return loss_of(distribution, sensitivity, mechanism["scale"], mechanism["lattice"])


def _check_bound(mechanism: Json, promise: Json, norm: int | str) -> None:
    """Where the bound is one of ours, its sensitivity and its lattice are computed again; otherwise they are taken at their word."""
    scale, step = mechanism["scale"], mechanism["lattice"]
    _check(step is None or step <= scale / 2**8, "the lattice is too coarse for the noise")
    described = mechanism.get("bound")
    if described is None or described["name"] not in _BOUNDS:
        return
    make = _BOUNDS[described["name"]]
    made = {key: value for key, value in described.items() if key != "name"}
    parameters = inspect.signature(make).parameters
    # The identity of a bound in isometric coordinates does not name them, and certificates of versions before
    # 0.3 do not have the switches of root counts, which are then off.
    may_be_left_out = {"off_diagonal", "cuts", "root"}
    _check(
        set(parameters) - may_be_left_out <= set(made) <= set(parameters),
        f"the bound must be described by {', '.join(sorted(parameters))}",
    )
    for name, value in made.items():
        parameter = parameters[name]
        whole = isinstance(value, int) and not isinstance(value, bool)
        _check(
            parameter.annotation is not int or whole, f"{name} of the bound must be a whole number"
        )
        _check(
            parameter.annotation is not bool or isinstance(value, bool),
            f"{name} of the bound must be true or false",
        )
    bound = make(**made)
    relation = Relation(promise["relation"])
    true = sensitivity_of(bound, norm, relation)
    stated = mechanism["sensitivity"]
    _check(
        true <= stated * (1 + _TOLERANCE),
        f"its bound has sensitivity {true:.6g} under {relation.value}, not {stated:.6g}",
    )
    if step is not None and mechanism["distribution"] == "ball":
        shells = stated / (step * shell_width(bound.size))
        _check(
            shells == round(shells),
            "on a lattice the sensitivity of a ball must be a whole number of shells",
        )
    if step is not None:
        _check(step == bound.grid, "the lattice is not the grid of the bound")
        _check(
            (promise["users"] + 1) * bound.largest / step < 2.0**53,
            "the sums of this many users are not exact",
        )


def taken_on_trust(certificate: Certificate) -> list[str]:
    """What cannot be recomputed from the certificate: sensitivities of unknown bounds, and what it says itself."""
    trusted: list[str] = list(certificate.document.get("on_trust", []))
    for i, mechanism in enumerate(certificate.document["mechanisms"], start=1):
        if mechanism["name"] == "distributed":
            trusted.append(
                f"that each batch of mechanism {i} (distributed) has as many honest devices as it says, whoever stays away"
            )
        if mechanism["distribution"] in ("codebook", "signs"):
            continue  # epsilon does not rest on the bound
        name = (mechanism.get("bound") or {}).get("name")
        if name not in _BOUNDS:
            trusted.append(f"the sensitivity of mechanism {i} ({mechanism['name']})")
        elif getattr(_BOUNDS[name], "of_table", False):
            trusted.append(
                f"how far apart the rows of the public table of mechanism {i} ({mechanism['name']}) are"
            )
    return trusted


def _stream_norm(mechanism: Json, promise: Json) -> float:
    if mechanism["name"] in ("local", "rounds"):
        return 1.0  # every device sends once, and every user is in one round
    parameters = mechanism["parameters"]
    leaves = parameters["leaves"]
    _check(
        leaves <= promise["users"] or mechanism["name"] == "exact",
        "there are more leaves than users",
    )
    _check(
        isinstance(leaves, int) and leaves <= _MOST_LEAVES,
        f"leaves must be a whole number, at most {_MOST_LEAVES}",
    )
    _check(
        "bits" not in parameters or leaves <= 2**13,
        "a counter with rounded coefficients has at most 8192 leaves",
    )
    counter = FACTORISATIONS[mechanism["name"]](**parameters)
    _check(
        mechanism["lattice"] is None or counter.integral,
        "a lattice needs a counter with whole coefficients",
    )
    return counter.column_norm(2 if mechanism["distribution"] == "gaussian" else 1)


def _report_loss(mechanism: Json) -> Loss:
    """An index is 1 / e^-epsilon times as likely in the set of the nearest as outside, whatever the contribution and its bound are."""
    stated = mechanism["parameters"]
    size, radius, epsilon, nearest = (
        stated["dimension"],
        mechanism["sensitivity"],
        stated["epsilon"],
        stated["nearest"],
    )
    report: Codebook | SignReport
    if mechanism["distribution"] == "codebook":
        report = Codebook(size, radius, epsilon, nearest, stated["vectors"])
    else:
        report = SignReport(size, radius, epsilon, stated["asked"], nearest)
    _check(
        mechanism["norm"] == report.norm,
        f"a report by {report.distribution} needs the L{report.norm} norm",
    )
    scale = report.std
    _check(
        abs(mechanism["scale"] - scale) <= _OVERSTATED * scale,
        f"a decoded message has the standard deviation {scale:.6g}, not {mechanism['scale']:.6g}",
    )
    return report.loss()


def _shared_loss(mechanism: Json, promise: Json) -> Loss:
    """Of the sum of the shares that the honest devices of the largest batch add."""
    _check(
        mechanism["distribution"] == "gaussian" and mechanism["norm"] == 2,
        "shares of noise are Gaussian, for the L2 sensitivity",
    )
    _check(mechanism["scale"] > 0, "the noise has scale 0")
    _check_bound(mechanism, promise, 2)
    parameters, step = mechanism["parameters"], mechanism["lattice"]
    honest, dimension, described = (
        parameters["honest"],
        parameters["dimension"],
        mechanism.get("bound"),
    )
    _check(
        max(honest, parameters["leaves"]) <= promise["users"],
        "there are more honest devices, or more leaves, than users",
    )
    _check(
        parameters["dropouts"] == promise["request"].get("dropouts"),
        "the noise is made for other dropouts than the request has",
    )
    if described is not None and described["name"] in _BOUNDS:
        size = _BOUNDS[described["name"]](
            **{key: value for key, value in described.items() if key != "name"}
        ).size
        _check(dimension == size, f"its bound has {size} numbers, not {dimension}")
    share = mechanism["scale"] / step / math.sqrt(honest)
    return ApproxDP(
        sum_epsilon(share, honest, mechanism["sensitivity"] / step, dimension, promise["delta"]),
        promise["delta"],
    )


def _smooth_loss(parameters: Json) -> Loss:
    from confide.mechanisms.smooth import smooth_delta

    epsilon, delta, dimension = parameters["epsilon"], parameters["delta"], parameters["dimension"]
    _check(
        isinstance(dimension, int) and dimension <= 10**9,
        "dimension must be a whole number, at most 1e9",
    )
    true = smooth_delta(epsilon, parameters["alpha"], parameters["beta"], dimension)
    _check(
        true <= delta * (1 + _TOLERANCE),
        f"alpha and beta give delta={true:.6g} at epsilon={epsilon:g}, not {delta:g}",
    )
    return ApproxDP(epsilon, delta)


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CertificateError(otherwise)
