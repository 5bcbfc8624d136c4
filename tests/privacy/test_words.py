"""Nothing depends on the words: with random text in their place, all numbers, rows and decisions
are the same.
"""

import inspect
import json
import random
import string
import sys

import numpy as np
import pytest

import confide
from confide.audit import verify
from confide.cli import main
from confide.comparison.comparison import Comparison
from confide.errors import BudgetExceeded, InvalidParameter
from confide.logs import simulate
from confide.policy import uniform_policy
from confide.privacy import words
from confide.privacy.certificate import Certificate
from confide.runs.run import Run

STATES, STEPS = 4, 6
PRIVATE = confide.JointDP(1.0, 1e-5)
SWEEP = """
episodes = 200
seeds = 2
problems = ["lock"]
agents = ["likelihood-vi", "ucrl-vtr", {agent = "ucrl-vtr", calibration = "paper"}, "uniform"]
privacy = {epsilons = [1.0, 4.0], delta = 1e-5, none = true}
"""
LEARN = ["--states", STATES, "--actions", 2, "--discount", 0.9, "--max-steps", STEPS, "--no-ends"]
LEARN += [
    "--rewards",
    "rewards.csv",
    "--holdout",
    0.5,
    "--seed",
    3,
    "--source",
    "fast",
    "--epsilon",
    20,
    "--delta",
    1e-5,
    "--yes",
]


def nonsense():
    """Other text at each call, with everything in it that a pattern could look for."""
    return "".join(random.choices(string.ascii_letters + " .,:=()±εδ0123456789", k=30))


class Nonsense(dict):
    """Any key has a text, another one each time."""

    def __getitem__(self, _):
        return nonsense()

    def get(self, *_):
        return nonsense()


@pytest.fixture
def without_words(monkeypatch):
    """A function that replaces all words by random text, from then on."""

    def replaced():
        for name, value in vars(words).copy().items():
            if inspect.isfunction(value) and value.__module__ == words.__name__:
                several = "list" in str(inspect.signature(value).return_annotation)
                nonsense_words = (
                    (lambda *_, **__: [nonsense()]) if several else (lambda *_, **__: nonsense())
                )
            elif isinstance(value, dict) and not name.startswith("__"):
                nonsense_words = Nonsense(value)
            elif isinstance(value, str) and not name.startswith("__"):
                nonsense_words = nonsense()
            else:
                continue
            monkeypatch.setattr(words, name, nonsense_words)

    return replaced


def call(*arguments):
    """A command; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def values(facts):
    """Numbers, flags and kinds of a JSON document, without its texts for people."""
    if isinstance(facts, dict):
        words_for_people = (
            "text",
            "promise",
            "guarantee_in_words",
            "seconds",
            "created",
            "said",
            "title",
        )
        return {name: values(each) for name, each in facts.items() if name not in words_for_people}
    return [values(each) for each in facts] if isinstance(facts, list) else facts


def printed(capsys, *arguments):
    capsys.readouterr()
    assert call(*arguments) == 0, capsys.readouterr().err
    return values(json.loads(capsys.readouterr().out))


def results(capsys):
    """Everything that is computed of the same runs, tables, certificates and logs, by values."""
    agent = confide.agents.UCRLVTR(confide.problems.lock(0).public, episodes=300, privacy=PRIVATE)
    run = confide.run(agent, confide.problems.lock(0), seed=1)
    run.save("run")
    loaded = Run.load("run")
    found = {
        "run": (
            run.segments,
            loaded.segments,
            loaded.guarantee == run.guarantee == agent.guarantee,
        ),
        "verify": verify(Certificate.load("run/certificate.json")).epsilon,
        "shown": printed(capsys, "show", "run", "--json"),
        "certificate": printed(capsys, "verify", "run/certificate.json", "--json"),
        # The second time it is found in its folder.
        "saved": [
            printed(
                capsys,
                *("run", "ucrl-vtr", "lock", "--epsilon", 1, "--delta", 1e-5),
                *("--episodes", 200, "--seeds", 2, "--out", "runs", "--json"),
            )
            for _ in range(2)
        ],
        "compared": printed(capsys, "compare", "sweep.toml", "--out", "sweep", "--json"),
    }
    comparison = Comparison.load("sweep")
    found |= {
        "rows": [values(row.plain()) | {"anchor": row.anchor} for row in comparison.rows],
        "pairs": [values(pair.plain()) for pair in comparison.pairs],
        "ladders": [
            [(name, row.anchor) for name, row in ladder.items()]
            for promise in comparison.promises
            for ladder in comparison.ladders(promise)
        ],
        "promises": [promise.key for promise in comparison.promises],
        "ranking": [row.anchor for row in comparison.ranking("lock", comparison.chosen)],
    }
    # The second time the ledger has the answer.
    for _ in range(2):
        learned = printed(
            capsys, "learn", "log.parquet", *LEARN, "--ledger", "budget.sqlite", "--json"
        )
        spends = printed(capsys, "ledger", "show", "budget.sqlite", "--json")
        for spend in spends["spends"]:
            del spend["when"]
        found.setdefault("learned", []).append((learned, spends))
    return found


def folder_of(place, monkeypatch):
    place.mkdir()
    monkeypatch.chdir(place)
    (place / "sweep.toml").write_text(SWEEP)
    world = confide.problems.riverswim(states=STATES, horizon=STEPS)
    policy = uniform_policy(STEPS, STATES, 2)
    confide.logs.write("log.parquet", simulate(world, policy, 4000, np.random.default_rng(0)))
    np.savetxt("rewards.csv", world.rewards[0], delimiter=",")
    assert call("ledger", "init", "budget.sqlite", "--epsilon", 200, "--delta", 1e-4) == 0


def test_random_text_in_the_place_of_all_words_changes_no_result(
    tmp_path, monkeypatch, capsys, without_words
):
    monkeypatch.setattr("os.path.realpath", lambda path, **_: path)
    monkeypatch.setattr("confide.logs.log.Logs._stamps", property(lambda _: [0]))
    folder_of(tmp_path / "words", monkeypatch)
    expected = results(capsys)
    # What was saved with words is read without them.
    without_words()
    again = printed(capsys, "show", "run", "--json"), printed(capsys, "show", "sweep", "--json")
    assert again == (expected["shown"], expected["compared"])
    assert verify(Run.load("run").certificate).epsilon == expected["verify"]
    folder_of(tmp_path / "nonsense", monkeypatch)
    before = results(capsys)
    for name, value in expected.items():
        assert before[name] == value, name


def test_refusals_are_the_same_without_words(tmp_path, without_words):
    without_words()
    world = confide.problems.riverswim(states=STATES, horizon=STEPS)
    log = confide.logs.in_memory(
        simulate(world, uniform_policy(STEPS, STATES, 2), 2000, np.random.default_rng(0)),
        max_steps=STEPS,
    )
    learn, test = log.split(0.5)
    question = confide.offline.ModelRelease(
        states=STATES, actions=2, discount=0.9, rewards=world.rewards[0], ends=False
    )
    privacy = confide.CentralDP(20.0, 1e-6)
    model = question.release(learn, privacy=privacy, rng=np.random.default_rng(1))
    model.improvement(model.plan(), test, method="model", rng=np.random.default_rng(2))
    whole = question.release(log, privacy=privacy, rng=np.random.default_rng(1))
    for from_, other in ((model, learn), (whole, test), (model, log.split(0.4)[1])):
        with pytest.raises(InvalidParameter, match="holdout must be people"):
            from_.improvement(from_.plan(), other, method="model")
    confide.Ledger.init(tmp_path / "small.sqlite", epsilon=25.0, delta=1e-4)
    with confide.Ledger(tmp_path / "small.sqlite") as ledger:
        first = question.release(log, privacy=privacy, ledger=ledger, rng=np.random.default_rng(1))
        again = question.release(log, privacy=privacy, ledger=ledger, rng=np.random.default_rng(9))
        assert first.to_bytes() == again.to_bytes()
        with pytest.raises(BudgetExceeded):
            question.release(log, privacy=privacy, ledger=ledger, id="again")


def test_every_word_is_replaced(without_words):
    """So the tests above would notice a sentence that decides."""
    without_words()
    guarantee = confide.agents.Uniform(confide.problems.lock(0).public, episodes=5).guarantee
    assert str(guarantee) != str(guarantee) and str(PRIVATE) != str(PRIVATE)
    assert "NO PRIVACY" not in words.NO_PRIVACY and "confide.privacy.words" in sys.modules
