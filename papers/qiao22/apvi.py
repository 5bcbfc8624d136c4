"""DP-APVI [QiaoWang22]: pessimistic value iteration in a tabular MDP, from noisy counts.

A `PessimisticPlan` leaves this file as bytes with the format `confide-apvi/2`, and a ledger stores
these. The identity of `DPAPVI` (its name, its number and its fields) is in ledgers, too. Both must
stay as they are. Names of attributes may be changed freely.
"""

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
    """PUBLIC: noisy counts of a tabular MDP, and the policy that DP-APVI plans from them.

    The guarantee states the true epsilon. `policy` has an action for each step and state. `values`
    [h, s] are lower bounds on values. `penalties` and `visits` are [h, s, a]. Where the value is
    zero, every action is worth nothing after the penalty. Nothing is learned there, and the policy
    takes action 0.
    """

    setting: APVISetting
    rewards: Array = field(repr=False)
    counts: Array = field(repr=False)
    totals: Array = field(repr=False)
    guarantee: Guarantee
    certificate: Certificate | None = field(repr=False)
    plan: Pessimistic = field(init=False, repr=False)

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
        plan = pessimistic(self.setting, self.counts, self.totals, self.rewards, E)
        object.__setattr__(self, "plan", plan)

    def __repr__(self) -> str:
        learned = f"{100 * self.learned:.3g} % of steps and states learned"
        return f"PessimisticPlan({learned}; {self.guarantee})"

    @property
    def policy(self) -> TabularPolicy:
        return self.plan.policy

    @property
    def values(self) -> Array:
        return self.plan.values

    @property
    def penalties(self) -> Array:
        return self.plan.penalties

    @property
    def visits(self) -> Array:
        return self.plan.visits

    @property
    def learned(self) -> float:
        """The share of steps and states in which an action is worth more than its penalty."""
        return float((self.values > 0).mean())

    def to_bytes(self) -> bytes:
        """The plan as a NumPy archive without pickles, which a ledger stores and returns."""
        facts = {
            "format": _FORMAT,
            "setting": asdict(self.setting),
            "guarantee": self.guarantee.to_json(),
            "certificate": self.certificate.document if self.certificate else None,
        }
        buffer = io.BytesIO()
        arrays = {"rewards": self.rewards, "counts": self.counts, "totals": self.totals}
        document = np.array(json.dumps(facts, allow_nan=False))
        np.savez(buffer, facts=document, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "PessimisticPlan":
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                facts = json.loads(str(archive["facts"]))
                arrays = [archive[name] for name in ("rewards", "counts", "totals")]
            if facts["format"] != _FORMAT:
                raise StateError(
                    f"the plan has format {facts['format']}, "
                    f"this version of confide reads {_FORMAT}"
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
                for a, shape in zip(arrays, shapes, strict=True)
            ):
                raise ValueError
            certificate = Certificate(facts["certificate"]) if facts["certificate"] else None
            rewards, counts, totals = arrays
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
    """DP-APVI with the paper's constants.

    All counts n(h, s, a) and n(h, s, a, s') get noise of variance 2 H / rho. Then they are made
    consistent, and a pessimistic policy is planned from them.

    Guarantee: all that a `PessimisticPlan` holds satisfies `privacy` for each user, whatever the
    data are. The guarantee states a smaller epsilon than requested, because the paper's conversion
    to rho is loose. `calibration="tight"` has the least Gaussian noise for the request under
    "replace", and everything else as in the paper. Under "null" the noise is the same, and its loss
    is smaller by sqrt(2).

    Reference: [QiaoWang22], equations (2), (3), (5) and Algorithm 1 of the main text. The first
    trajectory of each user counts, up to step `horizon`. `rewards` [h, s, a], [s, a] or [s] are
    public, in [0, 1]. `failure` is the probability with which the theorem may fail. Two things
    differ from the paper. A log does not have the state that follows step H, so the rows of this
    step have one cell for the sum. The paper's C > 1 is 1, which makes no difference. Without noise
    (`NoPrivacy`) E = 0, and the rest is APVI without its term of lower order.
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
        """The paper's constants for a request.

        Without privacy only those constants are used that do not depend on noise.
        """
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
        """The statistic that is added up over users."""
        H = self.horizon
        support = steps_of(self.states, self.actions, H)
        bound = RootCounts(support.cells, support.pairs, starts=0, transitions=H, total_weight=1.0)
        counted = RootTransitions(bound, support, self.states * H, longest=H + 1)
        return StepTransitions(counted, self.states, H)

    def loss(self, privacy: Request) -> Loss:
        """The true loss of the noise, which a ledger charges for a release."""
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
        subject = (
            f"a policy by DP-APVI, {self.states} states, {self.actions} actions, "
            f"{self.horizon} steps"
        )
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
        used = min(steps, self.horizon)
        return f"the first trajectory of each user is used, and its first {used:,} steps"

    def warnings(self, answer: PessimisticPlan) -> list[ConfideWarning]:
        if answer.learned > 0:
            return []
        users = answer.setting.users_to_start()
        return [
            ConfideWarning(
                "nothing is learned: with even states and actions the printed penalty is above "
                f"every value up to {users:.2g} users"
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
