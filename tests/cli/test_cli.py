"""The command line as a user sees it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from confide.agents.catalogue import AGENTS, fits
from confide.problems import TabularMDP
from confide.problems.catalogue import PROBLEMS, make


def test_the_documentation_quotes_the_factor_of_explain(confide):
    promise = ["--epsilon", 1, "--delta", 1e-5, "--episodes", 100_000, "--json"]
    told = json.loads(confide("explain", "ucrl-vtr", "--compare-with", "paper", *promise).stdout)
    tight, paper = told["agents"]
    assert paper["relative_noise"] / tight["relative_noise"] == pytest.approx(3722, abs=0.5)
    assert "adds 3,722 times as much noise" in told["in_words"][0]
    assert (
        "3,722 times" in (Path(__file__).parents[2] / "docs" / "agents" / "mixtures.md").read_text()
    )


def test_audit(confide):
    done = confide("audit", "gaussian", "--runs", 2000, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert found["refuted"] is False
    assert 0 < found["epsilon_lower"] < found["epsilon"]
    broken = confide("audit", "gaussian", "--runs", 2000, "--twin", "shared")
    assert broken.returncode == 1
    assert "REFUTED" in broken.stdout


def test_an_attack_that_is_too_weak_says_so(confide):
    weak = confide("audit", "gaussian", "--runs", 100)
    assert weak.returncode == 0 and weak.stderr == ""
    assert (
        "the attack was too weak to be conclusive, increase --runs: 100 runs are few, the "
        "default is 200,000" in weak.stdout
    )
    assert (
        "% of the stated epsilon and " in weak.stdout
        and "% of the stated mu reached" in weak.stdout
    )
    assert "too weak" not in confide("audit", "gaussian", "--runs", 20_000).stdout


def test_a_learner_of_ones_own_is_audited(confide, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from confide.agents import UCRLVTR\nclass Mine(UCRLVTR):\n    name = 'mine'\n"
    )
    own, known = (
        json.loads(confide("audit", name, "--runs", 100, "--json", cwd=tmp_path).stdout)
        for name in ("mine:Mine", "ucrl-vtr")
    )
    assert own == {**known, "subject": "mine:Mine"}


ENCODES = """
from confide.agents import UCRLVTR
from confide.learning.agent import Batch
from confide.policy import TabularPolicy

class Encodes(UCRLVTR):
    seen = 0

    def observe(self, users):
        super().observe(users)
        self.seen = int(users.states[-1, -1] if hasattr(users, "states") else users.next_state[-1])

    def next_batch(self):
        batch = super().next_batch()
        actions = batch.policy.actions.copy()
        actions[0] = [self.seen >> bit & 1 for bit in range(actions.shape[1])]
        return Batch(TabularPolicy(actions, batch.policy.choices), batch.users)
"""


def test_raw_states_in_a_policy_are_refuted_and_the_certificate_says_what_is_on_trust(
    confide, tmp_path
):
    """Releases and certificate of this agent are honest; its policies are not."""
    (tmp_path / "encodes.py").write_text(ENCODES)
    audited = confide("audit", "encodes:Encodes", "--runs", 100, cwd=tmp_path)
    assert audited.returncode == 1 and "REFUTED" in audited.stdout
    assert "the policies that users get depend on the data of user" in " ".join(
        audited.stdout.split()
    )
    for agent, out in (("encodes:Encodes", "run"), ("ucrl-vtr", "own")):
        ran = confide(
            "run",
            agent,
            "lock",
            "--epsilon",
            1,
            "--episodes",
            200,
            "--seeds",
            1,
            "--out",
            tmp_path / out,
            cwd=tmp_path,
        )
        assert ran.returncode == 0, ran.stderr
    certificate, own = (
        next((tmp_path / name).rglob("certificate.json")) for name in ("run", "own")
    )
    checked = confide("verify", certificate)
    assert (
        checked.returncode == 0
        and "numbers are consistent, but part of the guarantee is taken on trust" in checked.stdout
    )
    assert (
        "NOT VERIFIED" in checked.stdout
        and "encodes:Encodes is not part of confide" in checked.stdout
    )
    assert "confide audit encodes:Encodes" in checked.stdout
    said = json.loads(confide("verify", certificate, "--json").stdout)
    assert said["valid"] is True and said["on_trust"] and said["checked"]
    assert "The certificate's numbers are consistent." in confide("verify", own).stdout


def test_an_audit_shows_progress_on_a_terminal():
    seen = bytearray()

    def read(descriptor):
        data = os.read(descriptor, 4096)
        seen.extend(data)
        return data

    assert (
        pty.spawn(
            [
                sys.executable,
                "-c",
                "from confide.cli import main; main()",
                "audit",
                "tree",
                "--runs",
                "1000",
            ],
            read,
        )
        == 0
    )
    assert b"2,000/2,000 runs" in seen


def test_verify(confide, tmp_path):
    from confide.audit import verify
    from confide.mechanisms.counters import Counter, Tree
    from confide.mechanisms.sources import noise_source
    from confide.privacy import CentralDP, loss_for
    from confide.privacy.bounded import L2Ball
    from confide.privacy.certificate import certify

    privacy = CentralDP(1.0, 1e-5)
    counter = Counter(
        L2Ball(1.0, 2),
        Tree(8),
        loss=loss_for(privacy),
        request=privacy,
        users=8,
        noise=noise_source("fast", 0),
    )
    certificate = certify(counter.guarantee, [counter.mechanism()])
    verify(certificate)
    certificate.save(tmp_path / "good.json")
    assert "are consistent" in confide("verify", tmp_path / "good.json").stdout
    assert json.loads(confide("verify", tmp_path / "good.json", "--json").stdout)["valid"] is True
    # Words of a file decide nothing, and are not taken for those of confide.
    forged = json.loads((tmp_path / "good.json").read_text())
    for assumption in forged["assumptions"]:
        assumption["text"] = "The noise is secure, and epsilon is 0.01."
    forged["checked"] = ["that epsilon is 0.01"]
    (tmp_path / "forged.json").write_text(json.dumps(forged))
    said = confide("verify", tmp_path / "forged.json").stdout
    assert "secure" not in said and "Simulation: fast noise" in said
    assert "  it says      that epsilon is 0.01" in said and "checked" not in said
    assert "secure" not in confide("verify", tmp_path / "forged.json", "--json").stdout
    certificate.document["mechanisms"][0]["scale"] /= 2
    certificate.save(tmp_path / "bad.json")
    done = confide("verify", tmp_path / "bad.json")
    assert done.returncode == 2
    assert "the mechanisms give" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["--version"], 0, "confide 0.", ""),
        (["audit", "gaussian", "--runs", "2000", "--twin", "shared"], 1, "REFUTED", ""),
        (["teleport"], 2, "", "No such command"),
    ],
)
def test_in_a_process_of_its_own(arguments, code, out, err):
    done = subprocess.run(
        [sys.executable, "-m", "confide", *arguments], capture_output=True, text=True
    )
    assert done.returncode == code
    assert (
        out in done.stdout
        and err in done.stderr
        and (not done.stdout) == (not out)
        and (not done.stderr) == (not err)
    )


def test_version(confide):
    assert confide("--version").stdout.startswith("confide 0.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["explain", "ucrl-vtr", "--epsilon", "-1"],
            "--epsilon must be positive and finite, got --epsilon -1.0",
        ),
        (
            ["explain", "ucrl-vtr", "--epsilon", "nan"],
            "--epsilon must be positive and finite, got --epsilon nan",
        ),
        (
            ["explain", "ucrl-vtr", "--epsilon", "inf"],
            "--epsilon must be positive and finite, got --epsilon inf",
        ),
        (["explain", "ucrl-vtr", "--epsilon", "0"], "epsilon must be positive"),
        (["explain", "ucrl-vtr", "--delta", "1"], "--delta must be in [0, 1), got --delta 1.0"),
        (
            ["explain", "ucrl-vtr", "--episodes", "0"],
            "--episodes must be at least 1, got --episodes 0",
        ),
        (["explain", "ucrl-vtr", "--epsilon", "much"], "--epsilon"),
        (["explain", "ucrl-vtr", "--colour"], "No such option"),
        (["audit", "magic"], "unknown audit subject 'magic'"),
        (["audit"], "Missing argument"),
        (["audit", "json:loads"], "json:loads is not an agent"),
        (["verify", "nowhere.json"], "cannot read nowhere.json"),
        (["ledger", "show", "nowhere.sqlite"], "confide ledger init"),
        (["teleport"], "No such command"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(confide, arguments, message, tmp_path):
    done = confide(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_list_shows_which_agents_fit_which_problems(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = call("list")
    assert all(len(line) <= 80 for line in said.splitlines())
    names = {*AGENTS, *PROBLEMS}
    assert names <= set(said.split()), names - set(said.split())  # no name breaks
    assert "gym:ID" in said
    told = json.loads(call("list", "--json"))
    for name, entry in told["problems"].items():
        if name != "icu-sepsis":
            public = make(name).public
            assert [agent for agent in AGENTS if fits(agent, public)] == entry["agents"]


def test_figures_are_for_the_problem_on_which_they_were_measured(call, tmp_path):
    """Of a saved copy they are the same. Another problem has none, whatever its name is."""
    problem = make("riverswim")
    problem.save(tmp_path / "copy.npz")
    rewards = problem.rewards / 2
    other = TabularMDP(problem.transitions, rewards, problem.start, name=problem.name)
    other.save(tmp_path / "other.npz")
    found = {}
    for name in ("riverswim", tmp_path / "copy.npz", tmp_path / "other.npz"):
        told = json.loads(call("list", "--for", name, "--json"))
        assert told["problem"] == "riverswim"
        found[Path(name).name] = told["agents"]["tabular-psrl"]["users_needed"]
    assert found["copy.npz"] == found["riverswim"] is not None
    assert found["other.npz"] is None


def test_list_for_a_problem_says_which_agents_fit_and_why_the_others_do_not(call):
    told = json.loads(call("list", "--for", "riverswim", "--json"))
    assert "tabular-psrl" in told["agents"] and told["others"]["ucrl-vtr"].startswith(
        "needs a mixture problem"
    )
    assert told["agents"]["tabular-psrl"]["trust"] == ["joint", "local", "distributed"]
    needed = told["agents"]["tabular-psrl"]["users_needed"]
    assert 100 < needed["users"] < needed["episodes"]
    said = call("list", "--for", "riverswim")
    assert f"{needed['users']:,}" in said and "Do not fit" in said
    hidden = json.loads(call("list", "--for", "lock-rewards", "--json"))
    assert hidden["others"]["ucrl-vtr"] == "needs public rewards" and hidden["rewards"] == "learned"
    control = json.loads(call("list", "--for", "pendulum", "--json"))
    assert (
        set(control["agents"]) >= {"ofu-lq", "thompson-lq"} and control["kind"] == "linear control"
    )
    unknown = json.loads(call("list", "--for", "gym:FrozenLake-v1", "--horizon", "7", "--json"))
    assert (
        unknown["rewards"] == "learned"
        and unknown["agents"]["tabular-psrl"]["users_needed"] is None
    )
    assert "not known" in call("list", "--for", "gym:FrozenLake-v1", "--horizon", "7")
    for name in ("linear-bandit", "one-hot"):
        assert json.loads(call("list", "--for", name, "--json"))["rewards"] == "learned"
    assert (
        "1 step, rewards learned" in call("list", "--for", "linear-bandit")
        and control["rewards"] == "public"
    )
    played = json.loads(
        call(
            "list",
            "--for",
            "gym:Blackjack-v1",
            "--horizon",
            "7",
            "--reward-range",
            "-1",
            "1",
            "--json",
        )
    )
    assert played["values"].startswith("unknown") and "tabular-psrl" in played["agents"]


@pytest.mark.parametrize(
    ("agent", "problem", "fitting"),
    [
        ("ucrl-vtr", "lock-rewards", "with unknown rewards: try linopt-vi, linopt-po"),
        ("lsvi-ucb", "oscillator", "try ofu-lq, thompson-lq, certainty-equivalent-lq"),
        ("thompson-lq", "latent", "try lsvi-ucb, next-state-vi; confide list --for latent"),
    ],
)
def test_an_agent_that_does_not_fit_names_those_that_do(agent, problem, fitting, call):
    assert fitting in call("run", agent, problem, "--epsilon", 1, code=2)
