"""Recompute the guarantee of a certificate from its numbers.

Nothing that a certificate says is believed if it can be recomputed. `taken_on_trust` lists the
rest. A new bound of ours needs a line in `_BOUNDS`; without it its sensitivity is taken on trust.
"""

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

# What rounding, and the discretisation of a PLD, may add up to, as a share of a number.
_TOLERANCE = 1e-6
# A number that is stated larger than it is by more than this share was not computed from these
# mechanisms. A matter of taste.
_MOST_OVERSTATED = 1e-3
# The largest number of leaves of a counter that is recomputed: more would take too long.
_MOST_LEAVES = 2**26
# By the kind of the request: which trust the guarantee may have.
_TRUST = {
    "CentralDP": {"central", "local"},
    "JointDP": {"joint", "central", "local"},
    "LocalDP": {"local"},
    "DistributedDP": {"distributed"},
    "NoPrivacy": {"none"},
}
# Our bounds, by the kind of their identity.
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
    """The recomputed guarantee, with the loss of each mechanism.

    It is returned only if the certificate's numbers are consistent.
    """

    epsilon: float
    delta: float
    losses: tuple[Loss, ...]


def verify(certificate: Certificate) -> Verification:
    """Recompute the guarantee that the mechanisms' sensitivities and noise give.

    Raises `CertificateError` unless it is the stated one, and the requested one.
    """
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
        _checked_loss(mechanism, promise, position)
        for position, mechanism in enumerate(document["mechanisms"], start=1)
    )
    stated = loss_from_json(promise["loss"])
    total = _compose(losses, stated, certificate.delta)
    _check_relation(promise, request)
    _check_assumptions(certificate, promise)
    verification = Verification(total.epsilon_at(certificate.delta), certificate.delta, losses)
    if request["kind"] == "NoPrivacy":
        _check_no_privacy(promise, stated)
    else:
        _check_noise(promise, request, losses)
        _check_size(certificate, request, stated, total)
    return verification


def _compose(losses: tuple[Loss, ...], stated: Loss, delta: float) -> Loss:
    """The loss of all mechanisms together."""
    pure = isinstance(stated, PureDP) and all(isinstance(loss, PureDP) for loss in losses)
    try:
        return compose(losses, delta=0.0 if pure else delta)
    except InvalidParameter as error:
        raise CertificateError(
            f"the mechanisms give no epsilon at delta={delta:g}: {error}"
        ) from None


def _check_relation(promise: Json, request: Json) -> None:
    _check(
        promise["relation"] == request["relation"],
        f"the request has the relation {request['relation']}, "
        f"but the guarantee {promise['relation']}",
    )
    needs_replace = request["kind"] in ("LocalDP", "DistributedDP")
    _check(
        promise["relation"] == "replace" or not needs_replace,
        f"{request['kind']} needs the relation replace",
    )


def _check_no_privacy(promise: Json, stated: Loss) -> None:
    _check(
        promise["epsilon"] is None and stated == NO_PRIVACY,
        "no privacy was requested, but a guarantee is stated",
    )
    _check(promise["source"] == "none", "no privacy was requested, but a noise source is named")


def _check_noise(promise: Json, request: Json, losses: tuple[Loss, ...]) -> None:
    """A guarantee needs noise in each mechanism, and an epsilon."""
    _check(promise["source"] != "none", "a guarantee is stated, but no noise source is named")
    delta = promise["delta"]
    _check(
        delta <= request["delta"] * (1 + _TOLERANCE),
        f"the request has delta={request['delta']:g}, but the guarantee {delta:g}",
    )
    _check(
        promise["epsilon"] is not None and request["epsilon"] is not None,
        "privacy was requested, but no epsilon is stated",
    )
    _check(NO_PRIVACY not in losses, "a guarantee is stated, but a mechanism adds no noise")


def _check_size(certificate: Certificate, request: Json, stated: Loss, total: Loss) -> None:
    """The stated loss and epsilon are those of the mechanisms, and not more than was requested."""
    _check(
        _covers(stated, total),
        f"the stated loss is {stated}, but the mechanisms give {total}",
    )
    delta = certificate.delta
    epsilon = total.epsilon_at(delta)
    recomputed = f"the mechanisms give {epsilon:.6g} at delta={delta:g}"
    _check(
        _is_close(epsilon, certificate.epsilon),
        f"epsilon={certificate.epsilon:.6g} is stated, but {recomputed}",
    )
    _check(
        epsilon <= request["epsilon"] * (1 + _TOLERANCE),
        f"epsilon={request['epsilon']:.6g} was requested, but {recomputed}",
    )


def _check_assumptions(certificate: Certificate, promise: Json) -> None:
    """All assumptions that the guarantee needs are stated, and none that denies its noise."""
    standing = standing_assumptions(Trust(promise["trust"]), promise["source"])
    needed = [assumption.kind for assumption in standing]
    stated = {assumption.kind for assumption in certificate.assumptions}
    missing = [kind for kind in needed if kind not in stated]
    _check(not missing, f"an assumption is missing: {', '.join(missing[:1])}")
    denied = {"fast-noise", "no-noise"} & stated - set(needed)
    _check(
        not denied,
        f"the noise is {promise['source']}, which contradicts {', '.join(sorted(denied))}",
    )


def _is_close(true: float, stated: float) -> bool:
    """Whether a number is not more than is stated, and not much less either.

    A stated number that is merely safe was not computed from these mechanisms.
    """
    return true <= stated * (1 + _TOLERANCE) and stated <= true * (1 + _MOST_OVERSTATED)


def _covers(stated: Loss, given: Loss) -> bool:
    """Whether the stated loss is of the same kind as the given one, and of the same size."""
    match stated, given:
        case GaussianDP(mu), GaussianDP(true_mu):
            return _is_close(true_mu, mu)
        case PureDP(epsilon), PureDP(true_epsilon):
            return _is_close(true_epsilon, epsilon)
        case ApproxDP(epsilon, delta), ApproxDP(true_epsilon, true_delta):
            return _is_close(true_epsilon, epsilon) and _is_close(true_delta, delta)
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
    name = mechanism["name"]
    distribution = mechanism["distribution"]
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
    """Compute the sensitivity and the lattice again if the bound is one of ours.

    The sensitivities of other bounds are taken at their word.
    """
    scale = mechanism["scale"]
    step = mechanism["lattice"]
    _check(step is None or step <= scale / 2**8, "the lattice is too coarse for the noise")
    bound = _bound_of(mechanism)
    if bound is None:
        return
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


def _bound_of(mechanism: Json) -> Bound | None:
    """The bound that the mechanism describes, or None if it is not one of ours."""
    described = mechanism.get("bound")
    if described is None or described["name"] not in _BOUNDS:
        return None
    make = _BOUNDS[described["name"]]
    given = {name: value for name, value in described.items() if name != "name"}
    parameters = inspect.signature(make).parameters
    # The identity of a bound in isometric coordinates does not name them, and certificates of
    # versions before 0.3 do not have the switches of root counts, which are then off.
    may_be_left_out = {"off_diagonal", "cuts", "root"}
    _check(
        set(parameters) - may_be_left_out <= set(given) <= set(parameters),
        f"the bound must be described by {', '.join(sorted(parameters))}",
    )
    for name, value in given.items():
        annotation = parameters[name].annotation
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        _check(annotation is not int or is_whole, f"{name} of the bound must be a whole number")
        _check(
            annotation is not bool or isinstance(value, bool),
            f"{name} of the bound must be true or false",
        )
    return make(**given)


def taken_on_trust(certificate: Certificate) -> list[str]:
    """What cannot be recomputed from the certificate.

    These are sensitivities of unknown bounds, and what it says itself.
    """
    trusted: list[str] = list(certificate.document.get("on_trust", []))
    for position, mechanism in enumerate(certificate.document["mechanisms"], start=1):
        subject = f"mechanism {position} ({mechanism['name']})"
        if mechanism["name"] == "distributed":
            trusted.append(
                f"that each batch of {subject} has as many honest devices as it says, "
                "whoever stays away"
            )
        if mechanism["distribution"] in ("codebook", "signs"):
            # Their epsilon does not rest on the bound.
            continue
        name = (mechanism.get("bound") or {}).get("name")
        if name not in _BOUNDS:
            trusted.append(f"the sensitivity of {subject}")
        elif getattr(_BOUNDS[name], "of_table", False):
            trusted.append(f"how far apart the rows of the public table of {subject} are")
    return trusted


def _stream_norm(mechanism: Json, promise: Json) -> float:
    """In how many released rows a user is, as a norm of a column of the counter."""
    if mechanism["name"] in ("local", "rounds"):
        # Every device sends once, and every user is in one round.
        return 1.0
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
    """The loss of a device that reports an index, whatever the contribution and its bound are.

    An index in the set of the nearest is 1 / e^-epsilon times as likely as one outside.
    """
    stated = mechanism["parameters"]
    size = stated["dimension"]
    radius = mechanism["sensitivity"]
    epsilon = stated["epsilon"]
    nearest = stated["nearest"]
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
        abs(mechanism["scale"] - scale) <= _MOST_OVERSTATED * scale,
        f"a decoded message has the standard deviation {scale:.6g}, not {mechanism['scale']:.6g}",
    )
    return report.loss()


def _shared_loss(mechanism: Json, promise: Json) -> Loss:
    """The loss of the sum of the shares that the honest devices of the largest batch add."""
    _check(
        mechanism["distribution"] == "gaussian" and mechanism["norm"] == 2,
        "shares of noise are Gaussian, for the L2 sensitivity",
    )
    _check(mechanism["scale"] > 0, "the noise has scale 0")
    _check_bound(mechanism, promise, 2)
    parameters = mechanism["parameters"]
    step = mechanism["lattice"]
    honest = parameters["honest"]
    dimension = parameters["dimension"]
    _check(
        max(honest, parameters["leaves"]) <= promise["users"],
        "there are more honest devices, or more leaves, than users",
    )
    _check(
        parameters["dropouts"] == promise["request"].get("dropouts"),
        "the noise is made for other dropouts than the request has",
    )
    bound = _bound_of(mechanism)
    if bound is not None:
        _check(dimension == bound.size, f"its bound has {bound.size} numbers, not {dimension}")
    # The standard deviation of one share, and the sensitivity, in steps of the lattice.
    share = mechanism["scale"] / step / math.sqrt(honest)
    sensitivity = mechanism["sensitivity"] / step
    delta = promise["delta"]
    return ApproxDP(sum_epsilon(share, honest, sensitivity, dimension, delta), delta)


def _smooth_loss(parameters: Json) -> Loss:
    from confide.mechanisms.smooth import smooth_delta

    epsilon = parameters["epsilon"]
    delta = parameters["delta"]
    dimension = parameters["dimension"]
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
