"""Objects with users' data made from hostile columns, and what becomes of them where compiled loops
read them.

Each group of objects is handled in a process of its own: a column that is not checked can crash the
interpreter.
"""

import json
import os
import traceback
import warnings
from collections import Counter

import numpy as np
from hostile import place

import confide
from confide import evaluation, logs, offline
from confide.errors import ConfideError
from confide.problems import lock, lock_rewards, riverswim
from confide.trajectory import LoggedUsers, Trajectories, TransitionCounts, collect

STATES, ACTIONS, STEPS = 6, 2, 20
# So many objects are tried in one process.
GROUP = 100
LARGE = [2**63 - 1, -(2**63), 2**62, -1, 0, 1, 2**31, 10**6]


class Lying:
    """An object whose conversion to an array gives something else each time."""

    def __init__(self, *answers):
        self._answers = list(answers)

    def __array__(self, dtype=None, copy=None):
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return np.asarray(answer)

    def __len__(self):
        return 10**6


class Subclass(np.ndarray):
    """An array that claims another shape."""

    def __len__(self):
        return 3


def trajectories(rng):
    users = int(rng.integers(1, 5))
    return {
        "states": rng.integers(STATES, size=(users, STEPS + 1)),
        "actions": rng.integers(ACTIONS, size=(users, STEPS)),
        "rewards": rng.random((users, STEPS)),
    }


def counts(rng):
    rows = int(rng.integers(1, 6))
    columns = {"step": STEPS, "state": STATES, "action": ACTIONS, "next_state": STATES}
    numbers = {name: rng.integers(most, size=rows) for name, most in columns.items()}
    return numbers | {
        "reward": rng.random(rows),
        "count": rng.integers(5, size=rows),
        "users": 5,
        "horizon": STEPS,
    }


def logged(rng):
    lengths = rng.integers(1, 6, size=int(rng.integers(1, 6)))
    rows = int(lengths.sum())
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return {
        "states": rng.integers(STATES, size=rows),
        "rewards": rng.random(rows),
        "trajectories": offsets,
        "users": np.arange(len(lengths) + 1),
        "valid": np.ones(len(lengths), bool),
        "actions": rng.integers(ACTIONS, size=rows),
        "probabilities": rng.uniform(0.1, 1, rows),
    }


def spoil(value, rng):
    """The same column in another form, or with other values."""
    if not isinstance(value, np.ndarray):
        return LARGE[rng.integers(len(LARGE))]
    array = value.copy()
    flat = array.reshape(-1)
    choice = int(rng.integers(16))
    if choice == 0:
        return array.astype(np.uint64) if array.dtype.kind == "i" else array.astype(np.float16)
    if choice == 1:
        flat[rng.integers(flat.size)] = (
            LARGE[rng.integers(len(LARGE))] if array.dtype.kind == "i" else np.nan
        )
        return array
    if choice == 2:
        with np.errstate(all="ignore"):
            return (array.astype(np.int64) * 2**62).astype(np.uint64)
    if choice == 3:
        return array.tolist()
    if choice == 4:
        return array.astype(object)
    if choice == 5:
        return array.reshape(1, *array.shape)
    if choice == 6:
        return array[:: -1 if rng.random() < 0.5 else 2]
    if choice == 7:
        array.flags.writeable = False
        return array
    if choice == 8:
        return array.view(Subclass)
    if choice == 9:
        return memoryview(np.ascontiguousarray(array))
    if choice == 10:
        return Lying(array, array[:1], np.full(10, 10**12))
    if choice == 11:
        return array.astype(">i8" if array.dtype.kind == "i" else ">f4")
    if choice == 12:
        return np.ma.masked_array(array, mask=rng.random(array.shape) < 0.5)
    if choice == 13:
        return array.astype(complex) if rng.random() < 0.5 else array.astype(str)
    if choice == 14:
        return [None, "x", (), {}, 1j, np.array(1), np.zeros(0), [[1], [1, 2]], 10**400, iter([])][
            rng.integers(10)
        ]
    return np.concatenate([flat, flat[:1]]) if array.ndim == 1 else array[:, :-1]


KINDS = {Trajectories: trajectories, TransitionCounts: counts, LoggedUsers: logged}


def make(rng):
    """The class of an object with users' data, and its columns, of which one or two are spoilt."""
    kind = list(KINDS)[rng.integers(len(KINDS))]
    columns = KINDS[kind](rng)
    for name in rng.choice(sorted(columns), size=int(rng.integers(1, 3)), replace=False):
        columns[str(name)] = spoil(columns[str(name)], rng)
    return kind, columns


class Readers:
    """Everything that reads users' data: agents of several families, and estimators from logs."""

    def __init__(self):
        privacy = confide.JointDP(1.0, 1e-5)
        river, world, unknown = (
            riverswim(),
            lock(states=STATES, actions=ACTIONS, horizon=3, jump=1),
            lock_rewards(),
        )
        kinds = (
            (confide.agents.TabularPSRL, river),
            (confide.agents.UCRLVTR, world),
            (confide.agents.QuestionsVI, unknown),
        )
        kinds += (
            (confide.agents.PUCB, river),
            (confide.agents.LikelihoodVI, world),
            (confide.agents.LinOptVI, unknown),
        )
        self.agents = []
        for kind, problem in kinds:
            source = confide.mechanisms.noise_source("fast", 0)
            agent = kind(problem.public, episodes=1000, privacy=privacy, noise=source)
            agent.next_batch()
            self.agents.append(agent)
        usual = {"states": STATES, "return_bound": 5.0}
        self.estimators = [
            evaluation.CountsAndSums(**usual),
            evaluation.DPLSW(**usual),
            evaluation.DPLSL(**usual, ridge=10.0),
        ]
        target = np.full((5, STATES, ACTIONS), 1 / ACTIONS)
        self.estimators.append(
            evaluation.ImportanceSampling(target=target, return_bound=5.0, clip=2.0)
        )
        self.estimators.append(
            offline.ModelRelease(
                states=STATES,
                actions=ACTIONS,
                discount=0.9,
                transitions=3,
                rewards=None,
                reward_range=(0.0, 1.0),
                terminal=np.zeros(STATES, bool),
                ends=True,
                start=np.full(STATES, 1 / STATES),
            )
        )

    def read(self, users):
        """All that reads such an object; refusals of single readers are fine."""
        if isinstance(users, LoggedUsers):
            log = logs.in_memory([users], max_trajectories=2, max_steps=5)
            calls = [lambda one=one: self._release(one, log) for one in self.estimators]
        else:
            calls = [lambda agent=agent: agent.contribution(users) for agent in self.agents]
        refused = 0
        for call in calls:
            try:
                call()
            except ConfideError:
                refused += 1
        return "refused by a reader" if refused == len(calls) else "returned"

    @staticmethod
    def _release(estimator, log):
        return estimator.release(
            log, privacy=confide.CentralDP(1.0, 1e-6), rng=np.random.default_rng(0)
        )


def outcome(readers, rng):
    """What became of one object, and where, if that is a defect."""
    kind, columns = make(rng)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind is Trajectories and rng.random() < 0.2:
                built = collect([tuple(columns.values())] * 2, STEPS)
            else:
                built = kind(**columns)
            return readers.read(built), ""
    except ConfideError:
        return "refused", ""
    except Exception as error:
        if os.environ.get("FUZZ_TRACE"):
            traceback.print_exc()
        return "raw", f"{kind.__name__}: {place(error)}: {error}"[:300]


def fuzz_data(*, objects, seed):
    """The outcomes of so many objects, as a count, and the defects among them."""
    readers = Readers()
    totals, defects = Counter(), []
    for first in range(0, objects, GROUP):
        outcomes = _in_a_child(readers, range(first, min(first + GROUP, objects)), seed)
        for kind, where in outcomes:
            totals[kind] += 1
            if where:
                defects.append((kind, where))
    return totals, defects


def _in_a_child(readers, numbers, seed):
    """The outcomes of these objects; a child that was killed by a signal ends the list with a
    crash.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as file:
            for number in numbers:
                print(
                    json.dumps(outcome(readers, np.random.default_rng([seed, number]))),
                    file=file,
                    flush=True,
                )
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        outcomes = [json.loads(line) for line in file]
    _, status = os.waitpid(child, 0)
    if status:
        outcomes.append(
            ["crash", f"object {numbers[0] + len(outcomes)} of seed {seed}, status {status}"]
        )
    return outcomes
