"""What a release of a log publishes: noisy counts of transitions, and everything that follows from
them.
"""

import io
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from confide import arguments
from confide._durable import output, replace_files
from confide.arguments import array, flag, real
from confide.errors import InvalidParameter, StateError
from confide.evaluation.estimate import DAMAGED
from confide.logs import Logs
from confide.logs.labels import Labels
from confide.mechanisms.sources import NoiseSource
from confide.offline.gain_planning import CandidatePolicy
from confide.offline.improvement import Improvement
from confide.offline.improvement_question import improvement_question
from confide.offline.learned_policy import LearnedPolicy
from confide.offline.policy_planning import (
    Dynamics,
    checked_policy,
    dynamics,
    plan_pessimistically,
    policy_of_choices,
    state_values,
)
from confide.offline.return_planning import ReleasedReturns
from confide.offline.reward_planning import rewards_of
from confide.offline.row_planning import EstimatedRows, rows_of, simplex
from confide.offline.table_features import LoggedTable, value_ranges
from confide.policy import StochasticPolicy, TabularPolicy
from confide.privacy.bounded import Array
from confide.privacy.certificate import Certificate
from confide.privacy.guarantee import Guarantee
from confide.privacy.ledger import Ledger
from confide.privacy.request import Request
from confide.release.question import check_call, check_request
from confide.release.sums import Progress
from confide.release.value import Value, quantile
from confide.tables.support_features import Support

_FORMAT = "confide-model/4"
# The fields of a table that are single numbers, as they stand in a saved model.
_NUMBERS = ("states", "actions", "discount", "reward_low", "reward_high", "lowest", "highest")
_RETURNS = ("logged_returns", "state_returns")
# Of intervals.
LEVEL = 0.9
# Intervals are a little wider than normal quantiles say, because variances are estimated, too.
WIDER = 1.05
_RELEASED = ("counts", "cuts", "totals", "reward_sums", "starts")
AnyPolicy = LearnedPolicy | TabularPolicy | StochasticPolicy | npt.ArrayLike


def _check_release(model: "PrivateModel") -> None:
    """What was released has the shapes of the table, and its noise is known."""
    arguments.kind("table", model.table, LoggedTable)
    arguments.kind("guarantee", model.guarantee, Guarantee)
    support = model.table.support
    lengths = {
        "counts": (support.cells,),
        "cuts": (0, support.pairs),
        "totals": (0, support.pairs),
        "reward_sums": (0, support.pairs),
        "starts": (0, model.table.states),
    }
    for name, allowed in lengths.items():
        values = array(name, getattr(model, name), ndim=1, finite=False)
        if len(values) not in allowed:
            raise InvalidParameter.of(
                name, f"must have {' or '.join(map(str, allowed))} entries, got {len(values)}"
            )
    for name in ("noise_std", "total_weight", "reward_weight"):
        real(name, getattr(model, name), at_least=0)
    arguments.whole("steps", model.steps, at_least=1)


@dataclass(frozen=True, slots=True, eq=False)
class PrivateModel:
    """PUBLIC: noisy counts of transitions with the guarantee that covers them, and with them
    everything that is computed here.

    A value is the expected sum of discounted rewards of a trajectory, from its start to a terminal
    state or to `steps` steps, whichever comes first.

    Shapes: counts [cell] of the table's support, rows whose next state is not known (`cuts`), row
    totals and sums of scaled rewards [row] (empty if not released), first states [s] (empty if the
    start is public); `noise_std` of a count. `steps` is the log's max_steps.
    """

    table: LoggedTable
    counts: Array = field(repr=False)
    cuts: Array = field(repr=False)
    totals: Array = field(repr=False)
    reward_sums: Array = field(repr=False)
    starts: Array = field(repr=False)
    noise_std: float
    total_weight: float
    reward_weight: float
    guarantee: Guarantee
    certificate: Certificate | None = field(repr=False)
    steps: int
    logged_returns: ReleasedReturns | None = field(default=None, repr=False)
    state_returns: ReleasedReturns | None = field(default=None, repr=False)
    labels: Labels = field(default_factory=Labels, repr=False)
    rows: EstimatedRows = field(init=False, repr=False)
    dynamics: Dynamics = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_release(self)
        rows = rows_of(
            self.counts,
            self.totals,
            self.noise_std,
            self.total_weight,
            self.table.support,
            self.cuts,
            self.table.logged_rows if self.cuts.size else None,
        )
        spread = self.noise_std / (self.reward_weight or 1.0)
        rewards, std = rewards_of(self.table, rows, self.reward_sums, spread)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "dynamics", dynamics(self.table, rows, rewards, std))

    def __repr__(self) -> str:
        size = f"{self.table.states} states, {self.table.actions} actions"
        return f"PrivateModel({size}; {self.guarantee})"

    @property
    def start(self) -> Array:
        """Where trajectories start [s]: public, or from noisy counts."""
        return simplex(self.starts) if self.table.start is None else self.table.start

    @property
    def behaviour(self) -> Array:
        """How often each action was taken [s, a], from noisy counts.

        Root weights count an action that a person repeats in one state a little less than it was
        taken.
        """
        return self.dynamics.behaviour[: self.table.states]

    @property
    def behaviour_value(self) -> float:
        return self.value(self.behaviour)

    @property
    def logged(self) -> Value:
        """The value of the logged policy with a 90 % interval, from the mean return of users.

        It does not rest on the model.
        """
        if self.logged_returns is None:
            return Value(self.behaviour_value)
        return self.logged_returns.values(np.array([self.behaviour_value]), self._z)[0]

    @property
    def logged_states(self) -> list[Value]:
        """The value of the logged policy from the first visit to each state on [s], with 90 %
        intervals, from mean returns of users.
        """
        guesses = self.state_values(self.behaviour)
        if self.state_returns is None:
            return [Value(float(guess)) for guess in guesses]
        return self.state_returns.values(guesses, self._z, direct=self.noise_std == 0)

    @property
    def values_are_bounded(self) -> bool:
        """Whether returns of users only bound the value of a state, because what followed a row may
        be unknown.

        Between the bounds, the value of a state is the model's guess, moved into the interval. It
        often stands at an end of it, so the interval says more than the guess.
        """
        return self.state_returns is not None and len(self.state_returns.sums) > 1

    @property
    def _z(self) -> float:
        return WIDER * quantile(LEVEL, self.guarantee)

    def _learned_value(
        self, improvement: float, std: float, luck: float, *, changed: bool
    ) -> Value:
        """The value of a policy that is better by so much in the model: with a lower bound alone,
        because the same data chose it.

        A policy that goes on as logged everywhere is the logged policy, and so is its value.
        """
        logged = self.logged
        z = self._z
        if not changed:
            return logged
        assert logged.value is not None
        least, most = (float(part[-1]) for part in value_ranges(self.table, self.steps))
        value = min(max(logged.value + improvement, least), most)
        if logged.low is None:
            return Value(value)
        low = value - luck - math.hypot(logged.value - logged.low, z * std)
        return Value(value, low if low > least else None)

    @property
    def rewards(self) -> Array:
        """[s, a], known or from noisy sums."""
        return self.dynamics.rewards[: self.table.states]

    @property
    def transitions(self) -> Array:
        """Transition probabilities [s, a, s'] with the end; rows of terminal states are zero."""
        return self.dynamics.P.toarray().reshape(self.dynamics.states, self.table.actions, -1)[
            : self.table.states
        ]

    def value(self, policy: AnyPolicy) -> float:
        """The value of a policy in the model: [s, a] probabilities, [s] actions, or a policy that
        is the same at every step.
        """
        return float(self.start @ self.state_values(policy))

    def values(self, policies: Iterable[AnyPolicy]) -> Array:
        """The values of many policies. They cost nothing: the model was released already."""
        return np.array(
            [self.value(policy) for policy in arguments.listed("policies", policies, object)]
        )

    def state_values(self, policy: AnyPolicy) -> Array:
        """The expected discounted return of the first `steps` steps from every state [s], in the
        model.
        """
        weights = self._weights(policy)
        if self.table.ends:
            weights = np.vstack([weights, np.full((1, self.table.actions), 1 / self.table.actions)])
        return state_values(self.dynamics, weights, self.steps)[: self.table.states]

    def plan(self, pessimism: float = 1.0, *, tested: bool = True) -> LearnedPolicy:
        """The best policy whose value the release supports: values are lowered by `pessimism`
        standard deviations of what is unknown.

        Each state has one choice more than actions: to go on as logged, which wins ties. If the
        gain of the whole policy over the behaviour is not SURE standard deviations above zero,
        everything stays as logged: nothing is announced that is not shown. `tested=False` gives the
        best guess, whether or not it passes that test.
        """
        pessimism = real("pessimism", pessimism, at_least=0, at_most=1e6)
        S = self.table.states
        A = self.table.actions
        flag("tested", tested)
        plan = plan_pessimistically(self.dynamics, pessimism, self.start, self.steps)
        choices = plan.choices[:S]
        gains = plan.gains[:S]
        gain_std = plan.gain_std[:S]
        improvement = plan.improvement
        improvement_std = plan.improvement_std
        luck = plan.luck
        if tested and not plan.shown:
            choices = np.full(S, A)
            nothing = np.zeros(S)
            gains = nothing
            gain_std = nothing
            improvement = 0.0
            improvement_std = 0.0
            luck = 0.0
        policy = policy_of_choices(self.behaviour, choices)
        return LearnedPolicy(
            choices,
            self.behaviour,
            self.value(policy),
            self.behaviour_value,
            pessimism,
            gains,
            gain_std,
            self.dynamics.visits[:S].sum(axis=1),
            improvement_std,
            self.labels,
            self.logged,
            self._learned_value(
                improvement, improvement_std, luck, changed=bool((choices < A).any())
            ),
            plan.shown,
        )

    def improvement(
        self,
        policy: AnyPolicy,
        holdout: Logs,
        *,
        privacy: Request | None = None,
        method: str = "auto",
        with_value: bool = False,
        ledger: Ledger | None = None,
        rng: np.random.Generator | None = None,
        noise: NoiseSource | None = None,
        progress: Progress | None = None,
        id: str | None = None,
    ) -> Improvement:
        """By how much a policy is better than the logged one, with 95 % confidence, from users who
        were held out.

        `holdout` is the other part of the log: learn, test = logs.split(0.5). It is released under
        `privacy`, by default that of the model; a ledger charges the larger loss of the two parts.
        `method`: "weights" tests a mixture of the policy with the logged one by clipped importance
        weights, and needs the logged probabilities of actions and rewards that are not negative;
        "model" compares the lower value of the policy in a release of the held-out people with
        their mean return; "auto" takes the one that shows more in this model. The value of the
        policy itself gets a 90 % interval from counts of the held-out people
        (`Improvement.learned`). The method "model" releases these counts anyway. With `with_value`
        the method "weights" releases them, too, on half of the budget, and its bound is lower then.
        """
        weights = self._weights(policy)
        changed = (
            policy.changed if isinstance(policy, LearnedPolicy) else np.ones(len(weights), bool)
        )
        privacy = self.guarantee.request if privacy is None else privacy
        check_request(privacy)
        check_call(holdout, ledger, progress, id)
        question = improvement_question(
            self,
            CandidatePolicy(weights, changed),
            holdout,
            privacy,
            method,
            with_value=flag("with_value", with_value),
        )
        return question.release(
            holdout,
            privacy=privacy,
            ledger=ledger,
            rng=rng,
            noise=noise,
            progress=progress,
            id=id,
        )

    def _weights(self, policy: AnyPolicy) -> Array:
        S = self.table.states
        A = self.table.actions
        if isinstance(policy, LearnedPolicy):
            return checked_policy("policy", policy.weights, S, A)
        if isinstance(policy, TabularPolicy | StochasticPolicy):
            steps = policy.probabilities()
            if (steps != steps[:1]).any():
                raise InvalidParameter.of(
                    "policy", "must be the same at every step: the model has no horizon"
                )
            return checked_policy("policy", steps[0], S, A)
        table = array("policy", policy)
        if table.ndim == 1:
            actions = arguments.integers("policy", policy)
            if actions.shape != (S,) or ((actions < 0) | (actions >= A)).any():
                raise InvalidParameter.of(
                    "policy",
                    f"must have {S} actions in 0..{A - 1}, one per state, got shape "
                    f"{actions.shape}",
                )
            table = np.eye(A)[actions]
        return checked_policy("policy", table, S, A)

    def to_bytes(self) -> bytes:
        """Everything in one NumPy archive without pickles: what a ledger stores, and hands out
        again.
        """
        table = self.table
        support = self.table.support
        facts = {
            "format": _FORMAT,
            "guarantee": self.guarantee.to_json(),
            "certificate": self.certificate.document if self.certificate else None,
            "table": {name: getattr(table, name) for name in _NUMBERS},
            "support": [support.layers, support.states, support.actions, support.known],
            "noise": [self.noise_std, self.total_weight, self.reward_weight],
            "steps": self.steps,
            "labels": self.labels.to_dict(),
        }
        arrays = {
            "indptr": support.indptr,
            "successors": support.successors,
            "terminal": table.terminal,
        }
        arrays |= {name: getattr(self, name) for name in _RELEASED}
        for name in _RETURNS:
            if (returns := getattr(self, name)) is not None:
                arrays[f"{name}_sums"] = returns.sums
                arrays[f"{name}_noise"] = returns.noise
                arrays[f"{name}_range"] = np.array([returns.centre, returns.radius])
        arrays |= {
            name: part
            for name in ("rewards", "start")
            if (part := getattr(table, name)) is not None
        }
        buffer = io.BytesIO()
        stored_facts = np.array(json.dumps(facts, allow_nan=False))
        np.savez(buffer, facts=stored_facts, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "PrivateModel":
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                held = {name: archive[name] for name in archive.files}
            facts = json.loads(str(held["facts"]))
            if facts["format"] != _FORMAT:
                raise StateError(
                    f"the model has format {facts['format']}, this version of confide reads "
                    f"{_FORMAT}"
                )
            layers, states, actions, is_public = facts["support"]
            support = Support(
                layers, states, actions, held["indptr"], held["successors"], is_public
            )
            table = LoggedTable(
                support=support,
                terminal=held["terminal"],
                rewards=held.get("rewards"),
                start=held.get("start"),
                **{name: facts["table"][name] for name in _NUMBERS},
            )
            _check_sizes(table, held)
            noise_std, total_weight, reward_weight = facts["noise"]
            certificate = Certificate(facts["certificate"]) if facts["certificate"] else None
            guarantee = Guarantee.from_json(facts["guarantee"])
            labels = Labels(**facts["labels"])
            counts, cuts, totals, reward_sums, starts = (held[name] for name in _RELEASED)
            released = counts, cuts, totals, reward_sums, starts
            noise = noise_std, total_weight, reward_weight
            logged_returns, state_returns = (_returns_in(held, name) for name in _RETURNS)
            returns = facts["steps"], logged_returns, state_returns
            return cls(table, *released, *noise, guarantee, certificate, *returns, labels)
        except DAMAGED as error:
            raise StateError(
                f"this is not a saved model, or it is damaged or cut off: {type(error).__name__}"
            ) from None

    def save(self, folder: str | Path) -> None:
        """Write `model.npz`, and `certificate.json` if there is one: both are public."""
        where = Path(arguments.path("folder", folder))
        with output(where), replace_files(where, last="model.npz") as target:
            if self.certificate:
                self.certificate.save(target / "certificate.json")
            (target / "model.npz").write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "PrivateModel":
        """From a folder that it was saved in, or from the file `model.npz` itself."""
        place = Path(arguments.path("path", path))
        try:
            return cls.from_bytes(
                arguments.regular_file(
                    place / "model.npz" if place.is_dir() else place
                ).read_bytes()
            )
        except OSError as error:
            raise StateError(f"cannot read a model from {path}: {error.strerror}") from None


def _returns_in(held: dict[str, Any], name: str) -> ReleasedReturns | None:
    """Released returns of a file, if it has some."""
    if f"{name}_sums" not in held:
        return None
    sums, noise, ends = (held[f"{name}_{part}"] for part in ("sums", "noise", "range"))
    fits = sums.ndim == 3 and 1 <= len(sums) <= 2 and sums.shape[1] == 3
    if not (fits and noise.shape == sums.shape[:2] and ends.shape == (2,)):
        raise ValueError
    if not all(
        part.dtype == np.float64 and np.isfinite(part).all() for part in (sums, noise, ends)
    ):
        raise ValueError
    return ReleasedReturns(sums, noise, float(ends[0]), float(ends[1]))


def _check_sizes(table: LoggedTable, held: dict[str, Any]) -> None:
    """Loops index with what a file says: sizes and successors must fit."""
    support = table.support
    S = support.states
    rows = support.states * support.actions
    indptr = support.indptr
    after = support.successors
    fits = (
        support.layers == 1
        and 1 <= table.states <= S <= table.states + 1
        and table.actions == support.actions >= 1
        and indptr.dtype == after.dtype == np.int64
        and indptr.shape == (rows + 1,)
        and indptr[0] == 0
        and bool((np.diff(indptr) >= 0).all())
        and after.shape == held["counts"].shape == (indptr[-1],)
        and bool(((after >= 0) & (after < S)).all())
        and held["cuts"].shape in ((rows,), (0,))
        and held["totals"].shape in ((rows,), (0,))
        and held["reward_sums"].shape in ((rows,), (0,))
        and held["starts"].shape in ((table.states,), (0,))
        and table.terminal.shape == (table.states,)
        and (held.get("rewards") is None) == (held["reward_sums"].size > 0)
        and (held.get("start") is None) == (held["starts"].size > 0)
        and all(
            held[name].dtype == np.float64 and np.isfinite(held[name]).all() for name in _RELEASED
        )
    )
    if not fits:
        raise ValueError
