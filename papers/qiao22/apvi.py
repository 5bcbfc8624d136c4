"""DP-APVI [QiaoWang22]: pessimistic value iteration in a table with steps, from one release of noisy counts."""

import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import array, check_size, choice, kind, real, whole
from confide.errors import ConfideWarning, InvalidParameter, LogError, StateError
from confide.evaluation.estimate import DAMAGED
from confide.identity import Identity
from confide.offline.transition_contributions import RootCounts, RootTransitions
from confide.policy import TabularPolicy
from confide.privacy.bounded import Array
from confide.privacy.certificate import Certificate
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import NO_PRIVACY, GaussianDP, Loss
from confide.privacy.request import NoPrivacy, Relation, Request, check_privacy_request
from confide.privatizers import Share
from confide.release.parameters import keep
from confide.release.question import LogQuestion
from confide.release.sums import LogSource, LogSums
from papers.qiao22.contributions import StepTransitions
from papers.qiao22.planning import Pessimistic, pessimistic, steps_of
from papers.qiao22.printed import APVISetting

_FORMAT = "confide-apvi/2"


@dataclass(frozen=True, slots=True, eq=False)
class PessimisticPlan:
    """PUBLIC: noisy counts of a table with steps, and what DP-APVI makes of them. The guarantee states the true epsilon.

    `policy` has an action for each step and state; `values` [h, s] are the lower values; `penalties` and `visits` [h, s, a]. Where the
    value is zero, every action is worth nothing after the penalty: nothing is learned there, and the policy takes action 0.
    """

    setting: APVISetting
    rewards: Array = field(repr=False)
    counts: Array = field(repr=False)
    totals: Array = field(repr=False)
    guarantee: Guarantee
    certificate: Certificate | None = field(repr=False)
    found: Pessimistic = field(init=False, repr=False)

    def __post_init__(self) -> None:
        setting = kind("setting", self.setting, APVISetting)
        kind("guarantee", self.guarantee, Guarantee)
        support = steps_of(setting.states, setting.actions, setting.horizon)
        shape = (setting.horizon, setting.states, setting.actions)
        for name, expected in (
            ("counts", (support.cells,)),
            ("totals", (support.pairs,)),
            ("rewards", shape),
        ):
            values = array(name, getattr(self, name), finite=False)
            if values.shape != expected:
                raise InvalidParameter(f"{name} must have shape {expected}, got {values.shape}")
        exact = isinstance(self.guarantee.request, NoPrivacy)
        E = 0.0 if exact else self.setting.threshold
        object.__setattr__(
            self, "found", pessimistic(self.setting, self.counts, self.totals, self.rewards, E)
        )

    def __repr__(self) -> str:
        return f"PessimisticPlan({100 * self.learned:.3g} % of steps and states learned; {self.guarantee})"

    @property
    def policy(self) -> TabularPolicy:
        return self.found.policy

    @property
    def values(self) -> Array:
        return self.found.values

    @property
    def penalties(self) -> Array:
        return self.found.penalties

    @property
    def visits(self) -> Array:
        return self.found.visits

    @property
    def learned(self) -> float:
        """The share of steps and states in which an action is worth more than its penalty."""
        return float((self.values > 0).mean())

    def to_bytes(self) -> bytes:
        """Everything in one NumPy archive without pickles: what a ledger stores, and hands out again."""
        facts = {
            "format": _FORMAT,
            "setting": asdict(self.setting),
            "guarantee": self.guarantee.to_json(),
            "certificate": self.certificate.document if self.certificate else None,
        }
        buffer = io.BytesIO()
        arrays = {"rewards": self.rewards, "counts": self.counts, "totals": self.totals}
        np.savez(buffer, facts=np.array(json.dumps(facts, allow_nan=False)), **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "PessimisticPlan":
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                facts, held = (
                    json.loads(str(archive["facts"])),
                    [archive[name] for name in ("rewards", "counts", "totals")],
                )
            if facts["format"] != _FORMAT:
                raise StateError(
                    f"the plan has format {facts['format']}, this version of confide reads {_FORMAT}"
                )
            setting = APVISetting(**facts["setting"])
            support = steps_of(setting.states, setting.actions, setting.horizon)
            shapes = (
                (setting.horizon, setting.states, setting.actions),
                (support.cells,),
                (support.pairs,),
            )
            if any(
                a.shape != shape or a.dtype != np.float64 or not np.isfinite(a).all()
                for a, shape in zip(held, shapes, strict=True)
            ):
                raise ValueError
            certificate = Certificate(facts["certificate"]) if facts["certificate"] else None
            rewards, counts, totals = held
            return cls(
                setting,
                rewards,
                counts,
                totals,
                Guarantee.from_json(facts["guarantee"]),
                certificate,
            )
        except DAMAGED as error:
            raise StateError(
                f"this is not a saved plan, or it is damaged or cut off: {type(error).__name__}"
            ) from None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class DPAPVI(LogQuestion[PessimisticPlan]):
    """DP-APVI as printed: noise of variance 2 H / rho on all counts n(h, s, a) and n(h, s, a, s'), made consistent, then pessimism.

    Guarantee: all that a `PessimisticPlan` holds satisfies `privacy` for each user, whatever the data are, with the smaller epsilon that
    its guarantee states: the printed conversion to rho is loose. `calibration="tight"` has the least Gaussian noise of the promise under
    "replace", and everything else as printed. Under "null" the noise is the same, and its loss smaller by sqrt(2).

    Reference: [QiaoWang22], equations (2), (3), (5) and Algorithm 1, read in the main text. Users' first trajectories count, up to step
    `horizon`. `rewards` [h, s, a], [s, a] or [s] are public, in [0, 1]. Not as printed: what step H leads to is not in a log, so that
    its rows have one cell for the sum; C > 1 is 1, which makes no difference. `failure` is the probability with which the theorem may
    fail. Without noise (`NoPrivacy`) E = 0, and the rest is APVI without its term of lower order.
    """

    gaussian: ClassVar[bool] = True
    states: int
    actions: int
    horizon: int
    rewards: npt.ArrayLike
    failure: float = 0.1
    calibration: str = "paper"

    def __post_init__(self) -> None:
        S, A, H = (
            whole(name, getattr(self, name), at_least=1)
            for name in ("states", "actions", "horizon")
        )
        check_size(horizon=H, states=S, actions=A, successors=S)
        keep(self, states=S, actions=A, horizon=H, rewards=_rewards(self.rewards, (H, S, A)))
        keep(self, failure=real("failure", self.failure, above=0, below=1))
        choice("calibration", self.calibration, ("paper", "tight"))

    def identity(self) -> Identity:
        return Identity(
            "dp-apvi",
            1,
            states=self.states,
            actions=self.actions,
            horizon=self.horizon,
            rewards=self.rewards,
            failure=self.failure,
            calibration=self.calibration,
        )

    def setting(self, privacy: Request) -> APVISetting:
        """The printed constants for a promise; without privacy those that do not depend on noise are of use."""
        check_privacy_request(privacy)
        promise = (
            (1.0, 1e-6) if isinstance(privacy, NoPrivacy) else (privacy.epsilon, privacy.delta)
        )
        if promise[1] == 0:
            raise InvalidParameter("DP-APVI has Gaussian noise: delta must be above 0")
        return APVISetting(
            self.states, self.actions, self.horizon, *promise, self.failure, self.calibration
        )

    def statistic(self) -> StepTransitions:
        """What is added up over users."""
        H, support = self.horizon, steps_of(self.states, self.actions, self.horizon)
        bound = RootCounts(support.cells, support.pairs, starts=0, transitions=H, total_weight=1.0)
        counted = RootTransitions(bound, support, self.states * H, longest=H + 1)
        return StepTransitions(counted, self.states, H)

    def loss(self, privacy: Request) -> Loss:
        """What a release is charged to a ledger: the true loss of the noise."""
        if isinstance(check_privacy_request(privacy), NoPrivacy):
            return NO_PRIVACY
        bound = self.statistic().bound
        return GaussianDP(
            bound.sensitivity(Relation(privacy.relation)) / self.setting(privacy).noise_std
        )

    def queries(self, logs: LogSource, privacy: Request) -> Sequence[Share]:  # noqa: ARG002
        if not all(part.layout.columns.action for part in getattr(logs, "parts", ())):
            raise LogError('DP-APVI needs the column of actions: open the log with action="action"')
        query = "counts of states, actions and transitions at each step"
        return [Share(self.statistic().bound, 1.0, query)]

    def answer(self, sums: LogSums) -> PessimisticPlan:
        statistic = self.statistic()
        released = sums.release(statistic)
        counts, _, totals, _, _ = statistic.bound.unpack(released.values)
        rewards: Array = self.rewards  # type: ignore[assignment]
        subject = f"a policy by DP-APVI, {self.states} states, {self.actions} actions, {self.horizon} steps"
        return PessimisticPlan(
            self.setting(sums.privacy),
            rewards,
            counts,
            totals,
            released.guarantee,
            sums.certificate(subject),
        )

    def read_answer(self, data: bytes) -> PessimisticPlan:
        return PessimisticPlan.from_bytes(data)

    def counted(self, trajectories: int, steps: int) -> str:  # noqa: ARG002
        return f"the first trajectory of each user is used, and its first {min(steps, self.horizon):,} steps"

    def warnings(self, answer: PessimisticPlan) -> list[ConfideWarning]:
        if answer.learned > 0:
            return []
        users = answer.setting.users_to_start()
        return [
            ConfideWarning(
                f"nothing is learned: with even states and actions the printed penalty is above every value up to {users:.2g} users"
            )
        ]


def _rewards(given: npt.ArrayLike, shape: tuple[int, int, int]) -> Array:
    rewards = array("rewards", given)
    if rewards.shape == shape[1:2]:
        rewards = np.repeat(rewards[:, None], shape[2], axis=1)
    if rewards.shape not in (shape, shape[1:]):
        raise InvalidParameter(
            f"rewards must have shape {shape}, {shape[1:]} or {shape[1:2]}, got {rewards.shape}"
        )
    if rewards.min() < 0 or rewards.max() > 1:
        raise InvalidParameter("rewards must be in [0, 1], as the printed penalty assumes")
    return np.broadcast_to(rewards, shape).copy()
