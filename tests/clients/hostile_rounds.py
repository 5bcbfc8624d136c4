"""What a Python device does with a round: it refuses, or what it would send is within what the
noise was made for.
"""

import copy
import itertools
import math

import numpy as np

from confide.errors import ConfideError
from confide.mechanisms.exact import ExactSource
from confide.service.device.checks import check_round, parse_json
from confide.service.device.episodes import contribution
from confide.service.device.messages import mechanism_of, message

OUTSIDE = 1 + 2.0**-12  # of a report's radius: see confide.service.device.messages
NASTY = [
    None,
    True,
    False,
    "",
    "1",
    "__proto__",
    [],
    {},
    [[]],
    math.nan,
    math.inf,
    -math.inf,
    -1,
    0,
    0.5,
    1e-320,
    2**53,
    2**60,
    1e308,
]


def outcome_of_text(text, hostile):
    try:
        document = parse_json("the round", text.encode())
    except ConfideError:
        return "refused"
    return outcome_of(document, hostile)


def outcome_of(document, hostile):
    """`refused` or `sent`; whatever else happens fails."""
    accepts = hostile["accepts"]
    try:
        checked = check_round(document, "demo", 0, local=True)
        channel, statistic = checked["channel"], checked["statistic"]
        mechanism = mechanism_of(channel, statistic, accepts["epsilon"], accepts["delta"])
    except ConfideError:
        return "refused"
    episodes = [
        tuple(each[name] for name in ("states", "actions", "rewards"))
        for each in hostile["episodes"]
    ]
    contributions = [contribution(statistic, channel, episode) for episode in episodes]
    source = ExactSource(np.random.default_rng(0).bytes)
    if channel["source"] == "secure":
        sent = message(channel, mechanism, contributions[0], 0, "ab" * 32, source)
        values = np.frombuffer(
            sent,
            dtype="<f8",
            offset=len(sent) - 8 * (1 if channel["kind"] == "index" else channel["size"]),
        )
        assert np.isfinite(values).all()
    check_distances(channel, contributions, accepts["epsilon"], hostile["mu"])
    return "sent"


def check_distances(channel, contributions, epsilon, mu):
    """Independent of the client: how far apart contributions may be is computed from the noise and
    the epsilon alone.
    """
    noise, grid = channel["noise"], channel["grid"]
    values = [np.asarray(each, dtype=float) * grid for each in contributions]
    assert all(each.shape == (channel["size"],) and np.isfinite(each).all() for each in values)
    if channel["kind"] == "index":
        order = np.inf if noise["distribution"] == "signs" else 2
        assert noise["epsilon"] <= epsilon * (1 + 1e-9)
        assert max(np.linalg.norm(each, order) for each in values) <= noise["radius"] * OUTSIDE
        return
    for one, other in itertools.combinations(values, 2):
        if noise["distribution"] == "laplace":
            assert np.abs(one - other).sum() <= noise["scale"] * epsilon * (1 + 1e-4)
        else:
            assert np.linalg.norm(one - other) <= (noise["scale"] - 2 * grid) * mu * (1 + 1e-6)


def random_round(rng, bases):
    """Half of them are rounds with other tables and other noise, half of them are damaged at one to
    three places.
    """
    document = copy.deepcopy(bases[rng.integers(len(bases))])
    if rng.random() < 0.5:
        refill(document, rng)
    else:
        for _ in range(rng.integers(1, 4)):
            damage(document, rng)
    return document


def refill(document, rng):
    statistic, noise = document["statistic"], document["channel"]["noise"]
    if statistic["kind"] == "transitions":
        size = 2.0 ** rng.integers(1, 26)
        statistic["table"] = (
            np.rint(rng.normal(size=np.shape(statistic["table"])) * size).astype(int).tolist()
        )
    elif statistic["kind"] == "answers":
        statistic["signs"] = rng.integers(-1, 2, size=np.shape(statistic["signs"])).tolist()
        statistic["steps"] = rng.integers(0, 6, size=len(statistic["steps"])).tolist()
    else:
        pairs, places = len(statistic["costs"]), len(statistic["successors"])
        statistic["costs"] = (2.0 ** rng.uniform(0, 40, size=pairs)).astype(int).tolist()
        statistic["successors"] = rng.integers(0, 3, size=places).tolist()
        statistic["indptr"] = [
            0,
            *np.sort(rng.integers(0, places + 1, size=pairs - 1)).tolist(),
            places,
        ]
        if statistic["balance"]:
            statistic["balance"] = int(rng.integers(1, 257))
    for name in ("scale", "radius"):
        if name in noise:
            noise[name] *= float(2.0 ** rng.uniform(-2, 2))


def damage(document, rng):
    """Replace, remove or repeat something anywhere in the document."""
    parent, place, part = None, None, document
    while isinstance(part, dict | list) and part and (parent is None or rng.random() < 0.85):
        parent, place = (
            part,
            (
                list(part)[rng.integers(len(part))]
                if isinstance(part, dict)
                else int(rng.integers(len(part)))
            ),
        )
        part = parent[place]
    choice = rng.random()
    if choice < 0.5:
        parent[place] = NASTY[rng.integers(len(NASTY))]
    elif choice < 0.7 and isinstance(part, int | float):
        parent[place] = part * float(2.0 ** rng.integers(-4, 5)) + float(rng.integers(-1, 2))
    elif choice < 0.85 and isinstance(parent, list):
        parent.append(copy.deepcopy(part))
    else:
        del parent[place]
