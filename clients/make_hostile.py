"""What a hostile server may send: `python clients/make_hostile.py` writes clients/hostile.json,
which the tests of all clients read.

A device refuses each round with an error of its own, or what it would send for the episodes stays
within what the noise was made for. For rounds that are refused because they are no rounds,
`refused` is true. A text between two @ is written without quotation marks, so that NaN, 1e999 and
other things that are no numbers of JSON get into the file as part of a text.
"""

import copy
import json
import re
from pathlib import Path
from typing import Any

PATH = Path(__file__).parent / "hostile.json"
GRID = 2.0**-24
RUN = "demo"
# What the person accepts. Gaussian noise keeps it if two contributions are at most `mu` standard
# deviations apart.
ACCEPTS = {"epsilon": 1.0, "delta": 1e-5, "trust": "local"}
MU = 0.268051124
EPISODES = [
    {"states": [0, 1, 2, 0, 1], "actions": [0, 1, 0, 1], "rewards": [1, 0, 1, 0.5]},
    {"states": [0, 0, 0, 0, 0], "actions": [0, 0, 0, 0], "rewards": [1, 1, 1, 1]},
    {"states": [1, 1, 1, 1, 1], "actions": [1, 1, 1, 1], "rewards": [0, 0, 0, 0]},
    {"states": [2, 2, 2, 2, 2], "actions": [1, 1, 1, 1], "rewards": [1, 1, 1, 1]},
    {"states": [9, 0, 9, 0, 9], "actions": [0, 9, 0, 9], "rewards": [9, -9, 9, -9]},
    {"states": [7, 0, 0, 0, 0], "actions": [7, 0, 0, 0], "rewards": [0, 1, 1, 1]},
    {"states": [-1, 2, 1, 2, 1], "actions": [0, 0, 1, 0], "rewards": [None, 1, "x", 1]},
    {
        "states": ["length", "0", 0.5, [], None],
        "actions": ["constructor", 1, {}, "1"],
        "rewards": ["1", None, [], {}],
    },
    {"states": [0, 1, 2, 1, 0], "actions": [1, 1, 1, 1], "rewards": [1e308, -1e308, 0.1, 1e-320]},
    {"states": [0] * 41, "actions": [0] * 40, "rewards": [1] * 40},
    {"states": [1] * 41, "actions": [1] * 40, "rewards": [1] * 40},
    {"states": [7, *[0] * 40], "actions": [0] * 40, "rewards": [1] * 40},
    {"states": [2, 2, *[0] * 39], "actions": [5, 1, *[0] * 38], "rewards": [1] * 40},
]


def _noise(distribution: str, scale: float) -> dict[str, Any]:
    return {"distribution": distribution, "scale": scale, "step": GRID}


def _round(
    kind: str, noise: dict[str, Any], statistic: dict[str, Any], size: int
) -> dict[str, Any]:
    policies = [{"kind": "tabular", "actions": [[0, 1, 0]] * 4, "choices": 2}]
    channel = {
        "id": "00" * 8,
        "kind": kind,
        "size": size,
        "grid": GRID,
        "source": "secure",
        "noise": noise,
    }
    about = {
        "format": "confide-round/2",
        "run": RUN,
        "generation": 0,
        "round": "ab" * 32,
        "policies": policies,
        "shares": [1],
    }
    return {**about, "channel": channel, "statistic": statistic}


def _transitions() -> dict[str, Any]:
    unit = 2**23
    rows = [[[[unit, 0], [0, unit], [-unit, 0]], [[0, -unit], [unit, 0], [0, 0]]] for _ in range(3)]
    return {"kind": "transitions", "steps": 4, "table": rows}


def _answers() -> dict[str, Any]:
    signs = [
        [[[(q + s + a + t) % 3 - 1 for t in range(3)] for a in range(2)] for s in range(3)]
        for q in range(4)
    ]
    return {
        "kind": "answers",
        "steps": [0, 1, 2, 3],
        "signs": signs,
        "rewards": [False, True, False, True],
    }


def _budget(balance: int) -> dict[str, Any]:
    sizes = {"layers": 1, "states": 3, "actions": 2, "steps": 40, "balance": balance}
    tables = {"indptr": list(range(0, 19, 3)), "successors": [0, 1, 2] * 6, "costs": [2**38] * 6}
    return {"kind": "budget", **sizes, **tables}


_SIGNS = {"distribution": "signs", "radius": 0.5, "epsilon": 1.0, "asked": 3, "nearest": 4}
_CODEBOOK = {
    "distribution": "codebook",
    "radius": 1.2,
    "epsilon": 1.0,
    "nearest": 354,
    "vectors": 1024,
}
BASES = {
    "transitions, gaussian": _round("numbers", _noise("gaussian", 8.0), _transitions(), 8),
    "transitions, laplace": _round("numbers", _noise("laplace", 5.0), _transitions(), 8),
    "transitions, codebook": _round("index", _CODEBOOK, _transitions(), 8),
    "answers, signs": _round("index", _SIGNS, _answers(), 4),
    "budget, gaussian": _round("numbers", _noise("gaussian", 6.0), _budget(128), 24),
    "budget, laplace": _round("numbers", _noise("laplace", 7.5), _budget(128), 24),
    "budget, codebook": _round("index", _CODEBOOK, _budget(128), 24),
    "budget, gaussian, public rewards": _round("numbers", _noise("gaussian", 5.5), _budget(0), 18),
}
MISSING = object()

# (what is hostile, which honest round it was, what is changed), all of which are refused.
REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    # A pair outside of the costs makes what is spent NaN, so that every later step counts at any
    # cost.
    ("costs that end early", "budget, gaussian, public rewards", {"statistic.costs": [2**38] * 5}),
    ("no costs at all", "budget, gaussian", {"statistic.costs": []}),
    ("states beyond the costs", "budget, gaussian, public rewards", {"statistic.states": 10}),
    ("actions beyond the costs", "budget, gaussian, public rewards", {"statistic.actions": 10}),
    ("layers beyond the costs", "budget, gaussian, public rewards", {"statistic.layers": 4}),
    ("costs as texts", "budget, gaussian, public rewards", {"statistic.costs": [str(2**38)] * 6}),
    (
        "costs as texts in base 16",
        "budget, gaussian, public rewards",
        {"statistic.costs": ["0x4000000000"] * 6},
    ),
    ("one cost as a text", "budget, gaussian", {"statistic.costs.0": "1"}),
    ("one cost as a list", "budget, gaussian", {"statistic.costs.0": [1]}),
    ("one cost is null", "budget, gaussian", {"statistic.costs.0": None}),
    ("one cost is NaN", "budget, gaussian", {"statistic.costs.0": "@NaN@"}),
    ("one cost is true", "budget, gaussian", {"statistic.costs.0": True}),
    ("one cost is infinite", "budget, gaussian", {"statistic.costs.0": "@1e999@"}),
    ("one cost is minus infinity", "budget, gaussian", {"statistic.costs.0": "@-1e999@"}),
    ("one cost is a fraction", "budget, gaussian", {"statistic.costs.0": 0.5}),
    ("one cost is negative", "budget, gaussian", {"statistic.costs.0": -(2**38)}),
    ("one cost is above the budget", "budget, gaussian", {"statistic.costs.0": 2**40 + 1}),
    ("one cost is no safe integer", "budget, gaussian", {"statistic.costs.0": 2**60}),
    (
        "costs as an object",
        "budget, gaussian",
        {"statistic.costs": {str(i): 1 for i in range(6)} | {"length": 6}},
    ),
    ("costs as a long text", "budget, gaussian", {"statistic.costs": "111111"}),
    ("a balance above one", "budget, gaussian", {"statistic.balance": 2**20}),
    ("a negative balance", "budget, gaussian", {"statistic.balance": -128}),
    ("a balance as a text", "budget, gaussian", {"statistic.balance": "128"}),
    ("a balance that is a fraction", "budget, gaussian", {"statistic.balance": 127.5}),
    (
        "all pairs have the same places",
        "budget, gaussian",
        {"statistic.indptr": [0, 18, 0, 18, 0, 18, 18]},
    ),
    ("places that begin in front of the list", "budget, gaussian", {"statistic.indptr.0": -3}),
    ("places beyond the list", "budget, gaussian", {"statistic.indptr.6": 19}),
    ("too few places", "budget, gaussian", {"statistic.indptr": [0, 18]}),
    ("places that are fractions", "budget, gaussian", {"statistic.indptr.1": 2.5}),
    ("a successor that does not exist", "budget, gaussian", {"statistic.successors.0": 3}),
    ("successors as texts", "budget, gaussian", {"statistic.successors": ["0", "1", "2"] * 6}),
    ("more coordinates than the tables have", "budget, gaussian", {"channel.size": 25}),
    (
        "a table for each of 2^40 pairs",
        "budget, gaussian",
        {"statistic.states": 2**20, "statistic.actions": 2**20},
    ),
    ("steps that never end", "budget, gaussian", {"statistic.steps": "@1e999@"}),
    ("no step", "budget, gaussian", {"statistic.steps": 0}),
    # Tables of transitions.
    ("a ragged table", "transitions, gaussian", {"statistic.table.1.0.0": [2**23]}),
    ("a table with a row too many", "transitions, gaussian", {"statistic.table.1.0": [[0, 0]] * 4}),
    ("a flat table", "transitions, gaussian", {"statistic.table": [0] * 36}),
    ("an empty table", "transitions, gaussian", {"statistic.table": []}),
    ("fractions in the table", "transitions, gaussian", {"statistic.table.0.0.0.0": 0.99}),
    ("texts in the table", "transitions, gaussian", {"statistic.table.0.0.0": ["8388608", "0"]}),
    ("an infinity in the table", "transitions, gaussian", {"statistic.table.0.0.0.0": "@1e999@"}),
    (
        "numbers that are no safe integers",
        "transitions, gaussian",
        {"statistic.table.0.0.0.0": 2**53},
    ),
    (
        "a prototype in the place of a row",
        "transitions, gaussian",
        {"statistic.table.0.0.0": {"__proto__": [1, 2], "length": 2}},
    ),
    ("far more steps than the size has", "transitions, laplace", {"statistic.steps": 4000}),
    ("a fraction of a step", "transitions, laplace", {"statistic.steps": 0.5}),
    # Questions.
    ("a sign of a thousand", "answers, signs", {"statistic.signs.0.0.0.0": 1000}),
    ("a sign that is a fraction", "answers, signs", {"statistic.signs.0.0.0.0": 0.5}),
    ("a sign as a text", "answers, signs", {"statistic.signs.0.0.0.0": "1"}),
    ("a question about a step that is NaN", "answers, signs", {"statistic.steps.0": "@NaN@"}),
    ("a question about a step in 2^60 steps", "answers, signs", {"statistic.steps.0": 2**60}),
    ("fewer questions than coordinates", "answers, signs", {"channel.size": 5}),
    ("a question whose kind is a text", "answers, signs", {"statistic.rewards.0": "false"}),
    ("answers on a grid that is too coarse", "answers, signs", {"channel.grid": 1.0}),
    # Noise.
    ("no scale", "transitions, gaussian", {"channel.noise.scale": MISSING}),
    ("a scale of zero", "transitions, gaussian", {"channel.noise.scale": 0}),
    ("a negative scale", "transitions, laplace", {"channel.noise.scale": -5}),
    ("a scale that is NaN", "transitions, gaussian", {"channel.noise.scale": "@NaN@"}),
    ("an infinite scale", "transitions, gaussian", {"channel.noise.scale": "@1e999@"}),
    ("a scale as a text", "transitions, gaussian", {"channel.noise.scale": "8"}),
    ("less than half of the noise", "transitions, gaussian", {"channel.noise.scale": 3.5}),
    ("less than half of the Laplace noise", "transitions, laplace", {"channel.noise.scale": 1.9}),
    ("a budget with less than half of the noise", "budget, gaussian", {"channel.noise.scale": 2.9}),
    ("a budget with too little Laplace noise", "budget, laplace", {"channel.noise.scale": 7.2}),
    ("noise on the real numbers", "transitions, gaussian", {"channel.noise.step": None}),
    (
        "noise on a lattice that is coarser than the data's",
        "transitions, gaussian",
        {"channel.noise.step": 1.0},
    ),
    (
        "noise on a lattice that is finer than the data's",
        "transitions, gaussian",
        {"channel.noise.step": 2.0**-30},
    ),
    (
        "a grid that is no power of two",
        "transitions, gaussian",
        {"channel.grid": 1e-7, "channel.noise.step": 1e-7},
    ),
    (
        "a grid of a thousand",
        "transitions, gaussian",
        {"channel.grid": 1024.0, "channel.noise.step": 1024.0},
    ),
    ("a grid of zero", "transitions, gaussian", {"channel.grid": 0, "channel.noise.step": 0}),
    ("a grid that is not finite", "transitions, codebook", {"channel.grid": "@1e999@"}),
    ("noise that nobody knows", "transitions, gaussian", {"channel.noise.distribution": "uniform"}),
    (
        "noise of the kind of a prototype",
        "transitions, gaussian",
        {"channel.noise.distribution": "constructor"},
    ),
    ("numbers that are called an index", "transitions, gaussian", {"channel.kind": "index"}),
    ("an index that is called numbers", "transitions, codebook", {"channel.kind": "numbers"}),
    ("noise from somewhere else", "transitions, gaussian", {"channel.source": "server"}),
    # Reports by one index.
    ("an epsilon of forty", "transitions, codebook", {"channel.noise.epsilon": 40.0}),
    ("an epsilon as a text", "transitions, codebook", {"channel.noise.epsilon": "1"}),
    ("an epsilon that is NaN", "transitions, codebook", {"channel.noise.epsilon": "@NaN@"}),
    ("a negative epsilon", "answers, signs", {"channel.noise.epsilon": -1.0}),
    ("no near vector", "transitions, codebook", {"channel.noise.nearest": 0}),
    ("all vectors are near", "transitions, codebook", {"channel.noise.nearest": 1024}),
    ("a fraction of a near vector", "transitions, codebook", {"channel.noise.nearest": 353.5}),
    ("a million vectors", "transitions, codebook", {"channel.noise.vectors": 10**6}),
    ("patterns that are no ball", "answers, signs", {"channel.noise.nearest": 3}),
    ("more signs than coordinates", "answers, signs", {"channel.noise.asked": 5}),
    ("a radius that is smaller than the tables", "budget, codebook", {"channel.noise.radius": 0.5}),
    ("a radius that is smaller than an answer", "answers, signs", {"channel.noise.radius": 0.25}),
    ("a radius of zero", "transitions, codebook", {"channel.noise.radius": 0}),
    ("a radius that is not finite", "transitions, codebook", {"channel.noise.radius": "@1e999@"}),
    ("a message of 2^40 numbers", "transitions, codebook", {"channel.size": 2**40}),
    ("a channel without an id", "transitions, codebook", {"channel.id": MISSING}),
    ("an id that is not hexadecimal", "transitions, codebook", {"channel.id": "not sixteen digi"}),
    # The document.
    ("no channel", "transitions, gaussian", {"channel": MISSING}),
    ("no statistic", "transitions, gaussian", {"statistic": None}),
    ("a statistic that nobody knows", "transitions, gaussian", {"statistic.kind": "everything"}),
    ("a list in the place of the statistic", "transitions, gaussian", {"statistic": [1, 2]}),
    ("another run", "transitions, gaussian", {"run": "other"}),
    ("another release", "transitions, gaussian", {"generation": 1}),
    ("a release as a text", "transitions, gaussian", {"generation": "0"}),
    ("a round without a digest", "transitions, gaussian", {"round": MISSING}),
    ("a round with a digest as a number", "transitions, gaussian", {"round": 7}),
    ("another format", "transitions, gaussian", {"format": "confide-round/1"}),
    ("no policy", "transitions, gaussian", {"policies": [], "shares": []}),
    ("an action that does not exist", "transitions, gaussian", {"policies.0.actions.0.0": 2}),
    ("an action as a text", "transitions, gaussian", {"policies.0.actions.0.0": "alert(1)"}),
    ("a policy that nobody knows", "transitions, gaussian", {"policies.0.kind": "remote"}),
    ("shares that are not finite", "transitions, gaussian", {"shares": ["@1e999@"]}),
    ("shares that sum to nothing", "transitions, gaussian", {"shares": [0]}),
    ("a share without a policy", "transitions, gaussian", {"shares": [0.5, 0.5]}),
    (
        "probabilities that are infinite",
        "transitions, gaussian",
        {"policies.0": {"kind": "stochastic", "weights": [[["@1e999@", 1]]]}},
    ),
    (
        "gains that are NaN",
        "transitions, gaussian",
        {"policies.0": {"kind": "linear", "gains": [[["@NaN@"]]]}},
    ),
    (
        "widths that do not fit",
        "transitions, gaussian",
        {"policies.0": {"kind": "context", "weights": [1, 2], "widths": [[1, 2, 3]]}},
    ),
]
# These are rounds. A device may take part in them, and what it sends stays within its bound.
HONEST = [(f"an honest round: {name}", name, {}) for name in BASES]
UNUSUAL: list[tuple[str, str, dict[str, Any]]] = [
    ("costs that pay for nothing", "budget, gaussian", {"statistic.costs": [0] * 6}),
    (
        "costs that nearly spend the budget at once",
        "budget, gaussian",
        {"statistic.costs": [2**40] * 6},
    ),
    ("costs of one", "budget, laplace", {"statistic.costs": [1] * 6}),
    (
        "places that are all of one pair",
        "budget, gaussian",
        {"statistic.indptr": [0, 18, 18, 18, 18, 18, 18]},
    ),
    ("successors that are all the same", "budget, gaussian", {"statistic.successors": [1] * 18}),
    ("a table that is zero", "transitions, laplace", {"statistic.table": [[[[0, 0]] * 3] * 2] * 3}),
    ("far more noise than is needed", "transitions, gaussian", {"channel.noise.scale": 1e6}),
    (
        "a whole number that is written as a fraction",
        "transitions, gaussian",
        {"statistic.steps": "@4.0@"},
    ),
    (
        "a prototype beside the fields",
        "transitions, gaussian",
        {"statistic.__proto__": {"steps": 4000, "kind": "budget"}},
    ),
    (
        "questions about steps that nobody reaches",
        "answers, signs",
        {"statistic.steps": [4, 5, 1000, 2**20]},
    ),
]
TEXTS = {
    "no JSON": "{",
    "an empty answer": "",
    "null": "null",
    "a number": "17",
    "a list": "[]",
    "ten thousand lists in one another": "[" * 10_000 + "]" * 10_000,
    "ten thousand objects in one another": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "a number with ten thousand digits": '{"generation":' + "9" * 10_000 + "}",
}

# (name, the answer that is changed, what is changed in its body or headers, or its whole text).
# Each is refused, and nothing is sent.
ANSWERS: list[tuple[str, str, dict[str, Any]]] = [
    ("an epsilon that is NaN", "manifest", {"fields": {"promise.epsilon": "@NaN@"}}),
    ("an epsilon as a text", "manifest", {"fields": {"promise.epsilon": "1"}}),
    ("an epsilon of null", "manifest", {"fields": {"promise.epsilon": None}}),
    ("an epsilon as a list", "manifest", {"fields": {"promise.epsilon": [1]}}),
    ("a negative epsilon", "manifest", {"fields": {"promise.epsilon": -1}}),
    ("a delta that is NaN", "manifest", {"fields": {"promise.delta": "@NaN@"}}),
    ("a delta of two", "manifest", {"fields": {"promise.delta": 2}}),
    ("no promise", "manifest", {"fields": {"promise": MISSING}}),
    ("a promise of nobody's trust", "manifest", {"fields": {"promise.trust": "LOCAL"}}),
    ("a trust that is a list", "manifest", {"fields": {"promise.trust": ["local"]}}),
    ("a simulation that is called no", "manifest", {"fields": {"simulation": "no"}}),
    ("a simulation that is null", "manifest", {"fields": {"simulation": None}}),
    ("a simulation that is zero", "manifest", {"fields": {"simulation": 0}}),
    ("no key", "manifest", {"fields": {"key": MISSING}}),
    ("another run's manifest", "manifest", {"fields": {"run": "other"}}),
    ("a problem that is a list", "manifest", {"fields": {"problem": []}}),
    ("a problem that is null", "manifest", {"fields": {"problem": None}}),
    ("a horizon as a text", "manifest", {"fields": {"problem": {"horizon": "5"}}}),
    ("a horizon of null", "manifest", {"fields": {"problem": {"horizon": None}}}),
    ("a horizon of true", "manifest", {"fields": {"problem": {"horizon": True}}}),
    ("a horizon that is no whole number", "manifest", {"fields": {"problem": {"horizon": 0.5}}}),
    ("a negative horizon", "manifest", {"fields": {"problem": {"horizon": -1}}}),
    ("a horizon of 1e15 steps", "manifest", {"fields": {"problem": {"horizon": 10**15}}}),
    ("a horizon that is infinite", "manifest", {"fields": {"problem": {"horizon": "@1e999@"}}}),
    ("a manifest that is a list", "manifest", {"text": "[]"}),
    ("a manifest of lists in one another", "manifest", {"text": "[" * 10_000 + "]" * 10_000}),
    ("keys that are no list", "keys", {"text": '{"keys": {"length": 1}}'}),
    ("keys that are numbers", "keys", {"text": '{"keys": [1]}'}),
    (
        "a key of no length",
        "keys",
        {"text": '{"keys": [{"id": "", "public": "", "endorsed_by": "", "endorsement": ""}]}'},
    ),
    ("no JSON in the place of keys", "keys", {"text": "<html>"}),
    ("a release without a number", "release", {"headers": {"confide-generation": None}}),
    ("a release with a number that is none", "release", {"headers": {"confide-generation": "NaN"}}),
    ("a release with a negative number", "release", {"headers": {"confide-generation": "-1"}}),
    (
        "a release with a number of a thousand digits",
        "release",
        {"headers": {"confide-generation": "9" * 1000}},
    ),
    ("a release without a signature", "release", {"headers": {"confide-signature": None}}),
    ("a release with a short signature", "release", {"headers": {"confide-signature": "00"}}),
    ("a release without a key", "release", {"headers": {"confide-key": None}}),
    ("a release with a key that is a path", "release", {"headers": {"confide-key": "../../keys"}}),
    ("a release with another digest", "release", {"headers": {"confide-digest": "0" * 64}}),
    ("a release without a predecessor", "release", {"headers": {"confide-previous": None}}),
    ("a round without a signature", "round", {"headers": {"confide-signature": None}}),
    ("a round that is no JSON", "round", {"text": "<html>"}),
    ("a round of another release", "round", {"fields": {"generation": 7}}),
    (
        "a redirect in the place of a manifest",
        "manifest",
        {"status": 302, "headers": {"location": "http://elsewhere/"}},
    ),
    ("a success without content", "manifest", {"status": 204, "text": ""}),
    ("an answer that nobody knows", "round", {"status": 299}),
    ("a refusal that is no JSON", "release", {"status": 404, "text": "[" * 10_000}),
    (
        "a refusal whose kind is an object",
        "release",
        {"status": 403, "text": '{"type": {"length": 3}}'},
    ),
]
# The same for the answer to a report. The report is kept, and the device says clearly that it was
# not answered.
REPLIES: list[tuple[str, dict[str, Any]]] = [
    ("an outcome that is no outcome", {"status": 201, "text": '{"outcome": "thank you"}'}),
    (
        "an outcome that is an object",
        {"status": 201, "text": '{"outcome": {"toString": "counted"}}'},
    ),
    ("an outcome that is a list", {"status": 200, "text": '{"outcome": ["counted"]}'}),
    ("an outcome of a prototype", {"status": 200, "text": '{"__proto__": {"outcome": "counted"}}'}),
    ("no JSON", {"status": 201, "text": "counted"}),
    ("null", {"status": 201, "text": "null"}),
    ("a status that nobody knows", {"status": 299, "text": '{"outcome": "counted"}'}),
]


def change(document: Any, path: str, value: Any) -> None:
    """Put a value at a path of names and places; `MISSING` removes what is there."""
    *parents, last = path.split(".")
    for name in parents:
        document = document[int(name)] if isinstance(document, list) else document[name]
    if value is MISSING:
        del document[last]
    elif isinstance(document, list):
        document[int(last)] = value
    else:
        document[last] = value


def text_of(document: Any) -> str:
    return re.sub(r'"@([^@]*)@"', r"\1", json.dumps(document, separators=(",", ":")))


def _changed(base: str, changes: dict[str, Any]) -> str:
    document = copy.deepcopy(BASES[base])
    for path, value in changes.items():
        change(document, path, value)
    return text_of(document)


def hostile() -> dict[str, Any]:
    rounds = [
        {"name": name, "refused": True, "text": _changed(base, changes)}
        for name, base, changes in REFUSED
    ]
    rounds += [
        {"name": name, "refused": False, "text": _changed(base, changes)}
        for name, base, changes in (*HONEST, *UNUSUAL)
    ]
    rounds += [{"name": name, "refused": True, "text": text} for name, text in TEXTS.items()]
    answers = []
    for name, path, changes in ANSWERS:
        fields = {
            place: "@missing@" if value is MISSING else value
            for place, value in changes.get("fields", {}).items()
        }
        answers.append(
            {"name": name, "path": path, **changes, **({"fields": fields} if fields else {})}
        )
    return {
        "about": (
            "Made by clients/make_hostile.py. "
            "A device refuses each of these, or sends nothing beyond its bound."
        ),
        "accepts": ACCEPTS,
        "mu": MU,
        "episodes": EPISODES,
        "rounds": rounds,
        "answers": answers,
        "replies": [{"name": name, **changes} for name, changes in REPLIES],
    }


def written(made: dict[str, Any]) -> str:
    """As JSON with a line for each case."""
    parts = []
    for name, part in made.items():
        lines = (
            ",\n".join(json.dumps(each) for each in part)
            if isinstance(part, list)
            else json.dumps(part)
        )
        parts.append(
            f"{json.dumps(name)}: [\n{lines}\n]"
            if isinstance(part, list)
            else f"{json.dumps(name)}: {lines}"
        )
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    PATH.write_text(written(hostile()))
