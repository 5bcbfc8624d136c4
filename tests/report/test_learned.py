"""The page of a learned policy: what its headline says, and its table in a browser."""

import numpy as np
import pytest

import confide
from confide.logs import in_memory, simulate
from confide.logs.labels import Labels
from confide.offline import ModelRelease
from confide.policy import uniform_policy
from confide.problems import riverswim
from confide.report.learned import HEADS, PolicyReport, cards, record, rows, words, write_learned

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def learned():
    world = riverswim(states=4, horizon=21)
    log = in_memory(
        simulate(world, uniform_policy(21, 4, 2), 3000, np.random.default_rng(0)), max_steps=21
    )
    asked = ModelRelease(states=4, actions=2, discount=0.9, rewards=world.rewards[0], ends=False)
    model = asked.release(log, privacy=confide.CentralDP(2.0, 1e-6), rng=np.random.default_rng(1))
    object.__setattr__(
        model, "labels", Labels(("bank", "shallow", EVIL, "far bank"), ("left", "right"))
    )
    return PolicyReport(model, model.plan(1.0))


def test_the_cards_say_what_is_predicted_what_was_tested_and_what_is_revealed(learned):
    logged, worth, better, revealed = cards(learned)
    policy = learned.policy
    assert logged[1] == f"{policy.logged.value:.3g}" and " to " in logged[2]
    assert worth[1] == f"{policy.learned.value:.3g}" and "(at least" in worth[2]
    assert "It was shown to be better." in worth[2]
    assert better[1] == "not tested" and "--holdout" in better[2]
    assert (
        revealed[1] == "ε = 2"
        and "replaced by somebody else’s" in revealed[2]
        and "e^ε = 7.39" in revealed[2]
    )
    model = learned.model
    as_before = PolicyReport(model, model.plan(1e6))
    # there is nothing to test
    assert [card[0] for card in cards(as_before)] == ["Logged policy", "Revealed about one user"]
    assert "keep the logged policy" in as_before.headline


def test_a_state_whose_value_is_only_bounded_has_an_interval_without_a_guess(learned):
    """Without ends nobody knows what followed a short trajectory, and the guess in the interval is
    the model's.
    """
    assert learned.model.values_are_bounded
    values = [row[HEADS.index("logged value (90 %)")] for row in rows(learned)]
    assert all(" to " in value and "(" not in value for value in values)


def test_the_report_states_what_it_assumes_of_the_log(learned, tmp_path):
    """As text, as JSON and on the page."""
    page = write_learned(learned, tmp_path / "out").read_text()
    texts = [text for name, text in words(learned) if name == "assumed"]
    stated = [each["text"] for each in record(learned)["said"] if each["about"] == "assumed"]
    for start in (
        "Nothing that the log does not record influenced both the choice",
        "The recorded state is enough to predict",
    ):
        assert sum(text.startswith(start) for text in texts) == 1
        assert sum(text.startswith(start) for text in stated) == 1
        assert start in page


@pytest.mark.parametrize("width", [375, 1280])
def test_the_table_sorts_and_filters(learned, browser, tmp_path, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    complaints = []
    page.on(
        "console",
        lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(write_learned(learned, tmp_path / "out").as_uri())
    rows = "#table-values tbody tr:not([hidden]) th"
    names = f"() => [...document.querySelectorAll('{rows}')].map((th) => th.textContent)"
    # text, not an element
    assert set(page.evaluate(names)) == {"bank", "shallow", EVIL, "far bank"}
    page.click("#table-values thead th:nth-child(7) button")
    assert page.evaluate(names) == [
        learned.policy.labels.state[s] for s in np.argsort(learned.policy.visits)
    ]
    page.fill("input[data-filter]", "BANK")
    assert sorted(page.evaluate(names)) == ["bank", "far bank"]
    assert page.inner_text("#told") == "2 of 4 rows"
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert complaints == []
    page.close()
