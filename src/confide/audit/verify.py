"""Compute a certificate's promise again, from its own numbers."""

from dataclasses import dataclass

from confide.errors import CertificateError, ConfideError
from confide.mechanisms.additive import loss_of
from confide.mechanisms.counters import FACTORISATIONS
from confide.privacy.certificate import Certificate, Json, loss_from_json
from confide.privacy.loss import NO_PRIVACY, ApproxDP, Loss, compose

_TOLERANCE = 1e-6  # relative: what rounding, and the discretisation of a PLD, may add up to
_MOST_LEAVES = 2**26
_TRUST = {"CentralDP": {"central"}, "JointDP": {"joint", "central"}, "LocalDP": {"local"}, "NoPrivacy": {"none"}}


@dataclass(frozen=True, slots=True)
class Verification:
    """What was computed again. Making one means that the certificate's numbers add up."""

    epsilon: float
    delta: float
    losses: tuple[Loss, ...]  # of each mechanism


def verify(certificate: Certificate) -> Verification:
    """Raise `CertificateError` unless the mechanisms' sensitivities and noise give what the certificate states and was asked for."""
    document = certificate.document
    promise, request = document["promise"], document["request"]
    losses = tuple(_loss(mechanism, i) for i, mechanism in enumerate(document["mechanisms"], start=1))
    delta = certificate.delta
    together = compose(losses, delta=delta)
    epsilon = together.epsilon_at(delta)
    _check(promise["trust"] in _TRUST[request["kind"]], f"a {request['kind']} was asked for, the promise is {promise['trust']}")
    _check(delta <= request["delta"] * (1 + _TOLERANCE), f"delta={request['delta']:g} was asked for, the promise has {delta:g}")
    if request["kind"] == "NoPrivacy":
        _check(promise["epsilon"] is None, "nothing was promised, but an epsilon is stated")
        return Verification(epsilon, delta, losses)
    _check(not any(loss == NO_PRIVACY for loss in losses), "a mechanism adds no noise, but privacy is promised")
    _check(promise["epsilon"] is not None, "privacy was asked for, but no epsilon is stated")
    _check(
        epsilon <= certificate.epsilon * (1 + _TOLERANCE),
        f"epsilon={certificate.epsilon:.6g} is stated, the mechanisms give {epsilon:.6g} at delta={delta:g}",
    )
    stated = loss_from_json(promise["loss"]).epsilon_at(delta)
    _check(epsilon <= stated * (1 + _TOLERANCE), f"the stated loss means epsilon={stated:.6g}, the mechanisms give {epsilon:.6g}")
    asked = request["epsilon"]
    _check(
        asked is not None and epsilon <= asked * (1 + _TOLERANCE),
        f"epsilon={asked} was asked for, the mechanisms give {epsilon:.6g}",
    )
    return Verification(epsilon, delta, losses)


def _loss(mechanism: Json, position: int) -> Loss:
    """A mechanism's loss, from its sensitivity, its noise and how often it looks at one user."""
    try:
        if mechanism["distribution"] == "none":
            return NO_PRIVACY
        if mechanism["name"] == "smooth":
            return _smooth_loss(mechanism["parameters"])
        norm = 2 if mechanism["distribution"] == "gaussian" else 1
        _check(mechanism["norm"] == norm, f"{mechanism['distribution']} noise answers to sensitivity in L{norm}")
        _check(mechanism["scale"] > 0, "the noise has scale 0")
        sensitivity = mechanism["sensitivity"] * _stream_norm(mechanism, norm)
    except ConfideError as error:
        raise CertificateError(f"mechanism {position} ({mechanism['name']}): {error}") from None
    return loss_of(mechanism["distribution"], sensitivity, mechanism["scale"], mechanism["lattice"])


def _stream_norm(mechanism: Json, norm: int) -> float:
    if mechanism["name"] == "local":
        return 1.0  # every device sends once
    parameters = mechanism["parameters"]
    _check(parameters["leaves"] <= _MOST_LEAVES, f"more than {_MOST_LEAVES} leaves")
    if "bits" in parameters:
        _check(parameters["leaves"] <= 2**13, "a rounded Toeplitz counter has at most 8192 leaves")
    try:
        return FACTORISATIONS[mechanism["name"]](**parameters).column_norm(norm)
    except TypeError:
        raise CertificateError("its parameters do not fit its name") from None


def _smooth_loss(parameters: Json) -> Loss:
    from confide.mechanisms.smooth import smooth_delta

    epsilon, delta = parameters["epsilon"], parameters["delta"]
    true = smooth_delta(epsilon, parameters["alpha"], parameters["beta"], parameters["dimension"])
    _check(true <= delta * (1 + _TOLERANCE), f"alpha and beta give delta={true:.6g} at epsilon={epsilon:g}, not {delta:g}")
    return ApproxDP(epsilon, delta)


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CertificateError(otherwise)
