"""Looking for the two neighbours whose contributions are farthest apart.

A user's raw data are a dict of arrays, drawn from a dict of `Reals` and `Choices`. The search
starts from random users and climbs: a change of one user's data is kept if it takes the pair
farther apart.
"""

from dataclasses import dataclass

import numpy as np

STARTS = 3
USERS = 24
STEPS = 600


@dataclass(frozen=True)
class Reals:
    """Numbers about as large as `scale`, and up to a thousand times larger."""

    shape: tuple
    scale: float = 1.0
    low: float = -np.inf
    high: float = np.inf

    def draw(self, rng):
        return np.clip(
            self.scale * 10 ** rng.uniform(-0.5, 1.5) * rng.normal(size=self.shape),
            self.low,
            self.high,
        )

    def change(self, values, rng, size):
        """All of them a little, or one of them a lot."""
        changed_values = values.copy()
        if rng.random() < 0.5:
            changed_values += size * self.scale * rng.normal(size=self.shape)
        else:
            place = rng.integers(changed_values.size)
            one = changed_values.flat[place]
            changed_values.flat[place] = rng.choice(
                [0.0, -one, 2 * one, one / 2, one + size * self.scale * rng.normal()]
            )
        return np.clip(changed_values, self.low, self.high)

    hostile = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1.7e308, 5e-324, 0.0)


@dataclass(frozen=True)
class Choices:
    """One of 0 .. `count` - 1 at each place."""

    shape: tuple
    count: int

    def draw(self, rng):
        return rng.integers(self.count, size=self.shape)

    def change(self, values, rng, size):  # noqa: ARG002
        changed_values = values.copy()
        changed_values.flat[rng.integers(changed_values.size)] = rng.integers(self.count)
        return changed_values

    @property
    def hostile(self):
        return (-1, self.count, 2**40, -(2**62))


def drawn(kinds, rng):
    return {name: kind.draw(rng) for name, kind in kinds.items()}


def changed(kinds, user, rng, size):
    """The user with one part changed, or with what is at one place (a step, a trajectory) also at
    another.
    """
    rows = max((len(part) for part in user.values()), default=1)
    if rows > 1 and rng.random() < 0.15:
        here, there = rng.integers(rows, size=2)
        return {
            name: _copied(part, here, there) if len(part) == rows else part
            for name, part in user.items()
        }
    name = list(kinds)[rng.integers(len(kinds))]
    return user | {name: kinds[name].change(user[name], rng, size)}


def _copied(part, here, there):
    changed_values = part.copy()
    changed_values[there] = changed_values[here]
    return changed_values


def hostile_users(kinds, rng):
    """Each strange value at one place and everywhere, in users who are ordinary otherwise."""
    for name, kind in kinds.items():
        for value in kind.hostile:
            for everywhere in (False, True):
                user = drawn(kinds, rng)
                part = user[name]
                part.flat[slice(None) if everywhere else rng.integers(part.size)] = value
                yield user
    for values in zip(*(np.resize(kind.hostile, 8) for kind in kinds.values()), strict=True):
        yield {
            name: np.full(kind.shape, value)
            for (name, kind), value in zip(kinds.items(), values, strict=True)
        }


def farthest(kinds, sent, *, order, nobody=None, seed=0, enough=np.inf):
    """The largest distance that is found between sent(user) and sent(other), or between sent(user)
    and what `nobody` sends. There is no third start if two found `enough`."""
    rng = np.random.default_rng(seed)
    largest = 0.0
    for start in range(STARTS):
        if start < 2 or largest < enough:
            largest = max(largest, worst_pair(kinds, sent, order=order, nobody=nobody, rng=rng)[0])
    return largest


def worst_pair(kinds, sent, *, order, rng, nobody=None, steps=STEPS):
    """One climb from random users: the distance, and the two users."""
    users = [drawn(kinds, rng) for _ in range(USERS)]
    values = np.stack([sent(user) for user in users])
    others = values if nobody is None else nobody[None]
    apart = np.linalg.norm(values[:, None] - others[None], ord=order, axis=2)
    i, j = np.unravel_index(apart.argmax(), apart.shape)
    pair = [users[i], users[j]]
    shown = [values[i], others[j]]
    best = apart[i, j]
    size = 1.0
    for _ in range(steps):
        which = 0 if nobody is not None else int(rng.integers(2))
        user = changed(
            kinds,
            pair[1 - which] if nobody is None and rng.random() < 0.1 else pair[which],
            rng,
            size,
        )
        value = sent(user)
        distance = np.linalg.norm(value - shown[1 - which], ord=order)
        size = np.clip(size * (1.3 if distance > best else 0.97), 1e-4, 10.0)
        if distance >= best:
            pair[which] = user
            shown[which] = value
            best = distance
    return best, pair
