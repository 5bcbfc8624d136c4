"""What a release of a log publishes: noisy counts of transitions, and everything that follows from
them.

`PrivateModel` is public from the moment it exists: `model_release.py` makes it from noisy sums.

- What leaves this file: a saved model (`model.npz`, with the format in `_FORMAT`, and
  `certificate.json`). A ledger stores the same bytes and hands them out again.
- What may not be changed freely: the names, the order and the meaning of what is saved. After a
  change, `_FORMAT` needs a new number, because old files cannot be read then. The checks of a saved
  file protect compiled loops, which use its numbers as indices.
- What may be changed freely: everything that is computed from the released numbers. It is
  post-processing, so no change can weaken privacy. The intervals were measured
  (benchmarks/results/values_learn.md), and must be measured again after a change.
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
    PlannedChoices,
    checked_policy,
    dynamics,
    go_on_as_logged,
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
_TABLE_NUMBERS = ("states", "actions", "discount", "reward_low", "reward_high", "lowest", "highest")
# The fields of a model that hold released returns, and those that hold noisy counts and sums.
_RETURNS = ("logged_returns", "state_returns")
# The level of intervals. A matter of taste; certificates and reports state it.
LEVEL = 0.9
# Intervals are wider by this factor than normal quantiles say, because variances are estimates.
# How often intervals hold with it was measured: benchmarks/results/values_learn.md.
WIDER = 1.05
_COUNTS = ("counts", "cuts", "totals", "reward_sums", "starts")
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
    """PUBLIC: noisy counts of transitions with the guarantee that covers them.

    A value is the expected sum of discounted rewards of a trajectory, from its start to a terminal
    state or to `steps` steps, whichever comes first. `steps` is the log's max_steps.

    Guarantee: what was released satisfies `guarantee`. Everything that is computed here is
    post-processing, and costs nothing.

    Shapes. A row is a pair (s, a), and a cell is a triple (s, a, s') of the table's support.

    - `counts` [cell]: how often each transition was seen. `noise_std` is the noise of one count.
    - `cuts` [row]: how many rows have a next state that is not known.
    - `totals` [row]: how many rows there are, times `total_weight`. Empty if not released.
    - `reward_sums` [row]: sums of rewards, scaled to [-1, 1], times `reward_weight`. Empty if
      rewards are public.
    - `starts` [s]: how many trajectories start in s. Empty if the start is public.
    - `rows` and `dynamics` are computed from these when the model is made.
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
        # Without released sums the weight is zero, and this number is not used.
        reward_sum_std = self.noise_std / (self.reward_weight or 1.0)
        rewards, reward_std = rewards_of(self.table, rows, self.reward_sums, reward_sum_std)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "dynamics", dynamics(self.table, rows, rewards, reward_std))

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
        """The value of the logged policy in the model. `logged` does not rest on the model."""
        return self.value(self.behaviour)

    @property
    def logged(self) -> Value:
        """The value of the logged policy with a 90 % interval, from the mean return of users.

        It does not rest on the model.
        """
        if self.logged_returns is None:
            return Value(self.behaviour_value)
        guess = np.array([self.behaviour_value])
        return self.logged_returns.values(guess, self._interval_quantile)[0]

    @property
    def logged_states(self) -> list[Value]:
        """The value of the logged policy from the first visit to each state on [s], with 90 %
        intervals, from mean returns of users.
        """
        guesses = self.state_values(self.behaviour)
        if self.state_returns is None:
            return [Value(float(guess)) for guess in guesses]
        return self.state_returns.values(
            guesses, self._interval_quantile, direct=self.noise_std == 0
        )

    @property
    def values_are_bounded(self) -> bool:
        """Whether returns of users only bound the value of a state, because what followed a row may
        be unknown.

        Between the bounds, the value of a state is the model's guess, moved into the interval. It
        often stands at an end of it, so the interval says more than the guess.
        """
        return self.state_returns is not None and len(self.state_returns.sums) > 1

    @property
    def _interval_quantile(self) -> float:
        """The half width of an interval, in standard deviations of the estimate."""
        return WIDER * quantile(LEVEL, self.guarantee)

    def _learned_value(self, plan: PlannedChoices, *, changed: bool) -> Value:
        """The value of the planned policy: the logged one, and the improvement in the model.

        It has a lower bound alone, because the same data chose the policy. The bound is lowered by
        what that choice gains by luck. A policy that goes on as logged everywhere is the logged
        policy, and so is its value.
        """
        logged = self.logged
        if not changed:
            return logged
        assert logged.value is not None
        least, most = (float(ends[-1]) for ends in value_ranges(self.table, self.steps))
        value = min(max(logged.value + plan.improvement, least), most)
        if logged.low is None:
            return Value(value)
        logged_doubt = logged.value - logged.low
        improvement_doubt = self._interval_quantile * plan.improvement_std
        low = value - plan.luck - math.hypot(logged_doubt, improvement_doubt)
        # A bound that every return satisfies says nothing.
        return Value(value, low if low > least else None)

    @property
    def rewards(self) -> Array:
        """The mean reward of each state and action [s, a], public or from noisy sums."""
        return self.dynamics.rewards[: self.table.states]

    @property
    def transitions(self) -> Array:
        """Transition probabilities [s, a, s'] with the end; rows of terminal states are zero."""
        rows = self.dynamics.P.toarray()  # [(s, a), s']
        by_state = rows.reshape(self.dynamics.states, self.table.actions, -1)  # [s, a, s']
        return by_state[: self.table.states]

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
        probabilities = self._action_probabilities(policy)
        if self.table.ends:
            # The dynamics have one more state, the end. What is done there does not matter.
            actions = self.table.actions
            probabilities = np.vstack([probabilities, np.full((1, actions), 1 / actions)])
        return state_values(self.dynamics, probabilities, self.steps)[: self.table.states]

    def plan(self, pessimism: float = 1.0, *, tested: bool = True) -> LearnedPolicy:
        """The best policy whose value the release supports.

        Values are lowered by `pessimism` standard deviations of what is unknown. Each state has one
        choice more than actions: to go on as logged, which wins ties. The whole policy is tested:
        if its gain is not clearly above what luck may give (`ANNOUNCED_STDS` in
        `policy_planning.py`), everything stays as logged. `tested=False` gives the best guess,
        whether or not it passes that test.
        """
        pessimism = real("pessimism", pessimism, at_least=0, at_most=1e6)
        flag("tested", tested)
        plan = plan_pessimistically(self.dynamics, pessimism, self.start, self.steps)
        if tested and not plan.shown:
            plan = go_on_as_logged(self.dynamics)
        return self._learned_policy(plan, pessimism)

    def _learned_policy(self, plan: PlannedChoices, pessimism: float) -> LearnedPolicy:
        """What users see of a plan: the states of the log, without the end."""
        states = self.table.states
        choices = plan.choices[:states]
        policy = policy_of_choices(self.behaviour, choices)
        changed = bool((choices < self.table.actions).any())
        return LearnedPolicy(
            choices=choices,
            behaviour=self.behaviour,
            value=self.value(policy),
            behaviour_value=self.behaviour_value,
            pessimism=pessimism,
            gains=plan.gains[:states],
            gain_std=plan.gain_std[:states],
            visits=self.dynamics.visits[:states].sum(axis=1),
            improvement_std=plan.improvement_std,
            labels=self.labels,
            logged=self.logged,
            learned=self._learned_value(plan, changed=changed),
            shown=plan.shown,
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
        probabilities = self._action_probabilities(policy)
        if isinstance(policy, LearnedPolicy):
            changed = policy.changed
        else:
            changed = np.ones(len(probabilities), bool)
        privacy = self.guarantee.request if privacy is None else privacy
        check_request(privacy)
        check_call(holdout, ledger, progress, id)
        question = improvement_question(
            self,
            CandidatePolicy(probabilities, changed),
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

    def _action_probabilities(self, policy: AnyPolicy) -> Array:
        """The policy as checked probabilities [s, a], whatever form the caller gave it."""
        states = self.table.states
        actions = self.table.actions
        if isinstance(policy, LearnedPolicy):
            probabilities = policy.weights
        elif isinstance(policy, TabularPolicy | StochasticPolicy):
            steps = policy.probabilities()  # [step, s, a]
            if (steps != steps[:1]).any():
                raise InvalidParameter.of(
                    "policy", "must be the same at every step: the model has no horizon"
                )
            probabilities = steps[0]
        else:
            probabilities = array("policy", policy)
            if probabilities.ndim == 1:
                chosen_actions = arguments.integers("policy", policy)
                outside = (chosen_actions < 0) | (chosen_actions >= actions)
                if chosen_actions.shape != (states,) or outside.any():
                    raise InvalidParameter.of(
                        "policy",
                        f"must have {states} actions in 0..{actions - 1}, one per state, got "
                        f"shape {chosen_actions.shape}",
                    )
                probabilities = np.eye(actions)[chosen_actions]
        return checked_policy("policy", probabilities, states, actions)

    def to_bytes(self) -> bytes:
        """Everything in one NumPy archive without pickles: what a ledger stores, and hands out
        again.
        """
        buffer = io.BytesIO()
        facts = np.array(json.dumps(self._stored_facts(), allow_nan=False))
        np.savez(buffer, facts=facts, **self._stored_arrays())  # type: ignore[arg-type]
        return buffer.getvalue()

    def _stored_facts(self) -> dict[str, Any]:
        """All that is saved and is no array. The order of the entries is a part of the format."""
        support = self.table.support
        return {
            "format": _FORMAT,
            "guarantee": self.guarantee.to_json(),
            "certificate": self.certificate.document if self.certificate else None,
            "table": {name: getattr(self.table, name) for name in _TABLE_NUMBERS},
            "support": [support.layers, support.states, support.actions, support.known],
            "noise": [self.noise_std, self.total_weight, self.reward_weight],
            "steps": self.steps,
            "labels": self.labels.to_dict(),
        }

    def _stored_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All saved arrays by name. Their order is a part of the format."""
        table = self.table
        arrays: dict[str, npt.NDArray[Any]] = {
            "indptr": table.support.indptr,
            "successors": table.support.successors,
            "terminal": table.terminal,
        }
        for name in _COUNTS:
            arrays[name] = getattr(self, name)
        for name in _RETURNS:
            returns = getattr(self, name)
            if returns is not None:
                arrays[f"{name}_sums"] = returns.sums
                arrays[f"{name}_noise"] = returns.noise
                arrays[f"{name}_range"] = np.array([returns.centre, returns.radius])
        for name in ("rewards", "start"):
            public_values = getattr(table, name)
            if public_values is not None:
                arrays[name] = public_values
        return arrays

    @classmethod
    def from_bytes(cls, data: bytes) -> "PrivateModel":
        """Read what `to_bytes` wrote. Bytes may come from anybody, so all sizes are checked."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            facts = json.loads(str(arrays["facts"]))
            if facts["format"] != _FORMAT:
                raise StateError(
                    f"the model has format {facts['format']}, this version of confide reads "
                    f"{_FORMAT}"
                )
            return cls._from_stored(facts, arrays)
        except DAMAGED as error:
            raise StateError(
                f"this is not a saved model, or it is damaged or cut off: {type(error).__name__}"
            ) from None

    @classmethod
    def _from_stored(cls, facts: dict[str, Any], arrays: dict[str, Any]) -> "PrivateModel":
        table = _read_table(facts, arrays)
        _check_sizes(table, arrays)
        noise_std, total_weight, reward_weight = facts["noise"]
        return cls(
            table=table,
            **{name: arrays[name] for name in _COUNTS},
            noise_std=noise_std,
            total_weight=total_weight,
            reward_weight=reward_weight,
            guarantee=Guarantee.from_json(facts["guarantee"]),
            certificate=Certificate(facts["certificate"]) if facts["certificate"] else None,
            steps=facts["steps"],
            logged_returns=_read_returns(arrays, "logged_returns"),
            state_returns=_read_returns(arrays, "state_returns"),
            labels=Labels(**facts["labels"]),
        )

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


def _read_table(facts: dict[str, Any], arrays: dict[str, Any]) -> LoggedTable:
    """The public table of a saved model. `_check_sizes` checks it."""
    layers, states, actions, is_public = facts["support"]
    support = Support(layers, states, actions, arrays["indptr"], arrays["successors"], is_public)
    return LoggedTable(
        support=support,
        terminal=arrays["terminal"],
        rewards=arrays.get("rewards"),
        start=arrays.get("start"),
        **{name: facts["table"][name] for name in _TABLE_NUMBERS},
    )


def _read_returns(arrays: dict[str, Any], name: str) -> ReleasedReturns | None:
    """Released returns of a saved model, if it has some."""
    if f"{name}_sums" not in arrays:
        return None
    sums = arrays[f"{name}_sums"]  # [bound, 3, place]
    noise = arrays[f"{name}_noise"]  # [bound, 3]
    centre_and_radius = arrays[f"{name}_range"]
    one_or_two_bounds = sums.ndim == 3 and 1 <= len(sums) <= 2 and sums.shape[1] == 3
    fits = noise.shape == sums.shape[:2] and centre_and_radius.shape == (2,)
    if not (one_or_two_bounds and fits):
        raise ValueError
    for values in (sums, noise, centre_and_radius):
        if values.dtype != np.float64 or not np.isfinite(values).all():
            raise ValueError
    return ReleasedReturns(sums, noise, float(centre_and_radius[0]), float(centre_and_radius[1]))


def _check_sizes(table: LoggedTable, arrays: dict[str, Any]) -> None:
    """Refuse a saved model whose sizes and successors do not fit together.

    Compiled loops use these numbers as indices and do not check them again.
    """
    support = table.support
    rows = support.states * support.actions
    # The support has one more state than the table if ends are transitions.
    sizes_fit = (
        support.layers == 1
        and 1 <= table.states <= support.states <= table.states + 1
        and table.actions == support.actions >= 1
    )
    indptr = support.indptr
    successors = support.successors
    # `indptr` says where the cells of each row begin, as in a sparse matrix of SciPy.
    support_fits = (
        sizes_fit
        and indptr.dtype == successors.dtype == np.int64
        and indptr.shape == (rows + 1,)
        and indptr[0] == 0
        and bool((np.diff(indptr) >= 0).all())
        and successors.shape == arrays["counts"].shape == (indptr[-1],)
        and bool(((successors >= 0) & (successors < support.states)).all())
    )
    # Rewards and the start are either public or counted, never both.
    counts_fit = (
        support_fits
        and arrays["cuts"].shape in ((rows,), (0,))
        and arrays["totals"].shape in ((rows,), (0,))
        and arrays["reward_sums"].shape in ((rows,), (0,))
        and arrays["starts"].shape in ((table.states,), (0,))
        and table.terminal.shape == (table.states,)
        and (arrays.get("rewards") is None) == (arrays["reward_sums"].size > 0)
        and (arrays.get("start") is None) == (arrays["starts"].size > 0)
    )
    if not counts_fit:
        raise ValueError
    for name in _COUNTS:
        if arrays[name].dtype != np.float64 or not np.isfinite(arrays[name]).all():
            raise ValueError
