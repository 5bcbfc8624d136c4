"""What explain says of an agent is what a run does, and saying it changes nothing."""

import json
import math

import numpy as np
import pytest

import confide
from confide.agents import UCRLVTR, LikelihoodVI, LinOptPO, LinOptVI, UCRLVTRPlus, Uniform
from confide.agents.catalogue import make_agent
from confide.agents.explain import explain
from confide.errors import InvalidParameter, PromiseBroken
from confide.identity import Identity
from confide.learning.algorithm import Calibration, Description
from confide.learning.learner import Learner
from confide.mechanisms.sources import noise_source
from confide.mixtures.printed import MixtureSetting, paper_noise
from confide.privacy import CentralDP, JointDP, LocalDP, NoPrivacy
from confide.privacy.request import Relation
from confide.privatizers import every, geometric
from confide.problems import lock, lock_rewards, riverswim

WORLD = lock(0, states=6, actions=2, horizon=3, jump=2)
USERS = 60
AGENTS = [UCRLVTR, UCRLVTRPlus, LinOptVI, LinOptPO, LikelihoodVI]
PRIVACY = [
    JointDP(1.0, 1e-5),
    JointDP(2.0, 1e-6, relation="null"),
    JointDP(1.0, delta=0.0),
    CentralDP(1.0, 1e-5),
    LocalDP(4.0, 1e-6),
    LocalDP(4.0, delta=0.0),
    NoPrivacy(),
]
CASES = [
    (kind, calibration, privacy)
    for kind in AGENTS
    for calibration in ("tight", "paper")
    for privacy in PRIVACY
    if calibration == "tight"
    or kind in AGENTS[:2]
    or (kind in AGENTS[2:4] and (privacy.delta > 0 or privacy == NoPrivacy()))
]


def make(kind, calibration, privacy, world=WORLD, **options):
    return kind(world.public, episodes=USERS, privacy=privacy, calibration=calibration, **options)


@pytest.mark.parametrize(
    ("kind", "calibration", "privacy"),
    CASES,
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_it_says_what_a_run_does_and_changes_nothing(kind, calibration, privacy):
    agent = make(kind, calibration, privacy)
    untouched = make(kind, calibration, privacy)
    (agent_facts,) = explain(agent).agents
    assert agent.noise is None and agent.rng is None and agent._batches is None
    assert agent_facts.calibration == calibration
    if not agent_facts.kept:  # [Luyo21, C.4] at delta = 0
        with pytest.raises(PromiseBroken, match=f"epsilon={agent_facts.epsilon:.6g}"):
            confide.run(agent, WORLD, seed=3)
        assert "refused" in str(explain(agent))
        return
    run = confide.run(agent, WORLD, seed=3)
    other = confide.run(untouched, WORLD, seed=3)
    assert run.segments == other.segments
    assert agent.released().values.tobytes() == untouched.released().values.tobytes()
    promise = run.certificate.document["guarantee"]
    mechanism = run.certificate.document["mechanisms"][0]
    given = agent_facts.to_json()
    assert (given["epsilon"], given["delta"]) == (promise["epsilon"], promise["delta"])
    assert (given["trust"], given["relation"]) == (promise["trust"], promise["relation"])
    for name in ("sensitivity", "distribution", "norm", "bound"):
        assert given[name] == mechanism[name]
    assert given["mechanism"] == mechanism["name"]
    assert given["releases"] == agent.schedule.leaves
    assert given["numbers_per_user"] == agent.released().values.size
    levels = np.array(
        [segment.noise_std for segment in run.segments if segment.noise_std]
        + [agent.noise_level.std]
    )
    if given["mechanism"] == "leaves":  # each is looked at on its own
        levels = np.sqrt(np.diff(levels**2, prepend=0.0))
    assert given["noise_std_last"] == pytest.approx(levels[-1], rel=1e-12)
    assert given["noise_std_first"] == pytest.approx(levels[0], rel=1e-12)
    assert given["noise_std_worst"] == pytest.approx(max(levels), rel=1e-12)


def test_secure_noise_is_explained_as_it_will_be_drawn():
    for privacy in (JointDP(1.0, 1e-5), LocalDP(1.0, 1e-5)):
        agent = make(UCRLVTR, "tight", privacy, noise=noise_source("secure"))
        (agent_facts,) = explain(agent).agents
        assert agent._batches is None
        assert agent_facts.noise.mechanism == agent.mechanisms()[0].name
        assert agent_facts.epsilon == agent.guarantee.epsilon


def test_users_until_signal_is_that_of_calibrate():
    setting = MixtureSetting(USERS, 3, WORLD.public.dimension)
    privacy = JointDP(1.0, 1e-5)
    (paper,) = explain(make(UCRLVTR, "paper", privacy)).agents
    assert paper.users_until_signal == paper_noise(privacy, setting).users()
    local, more = (
        explain(make(UCRLVTR, "tight", LocalDP(epsilon, 1e-5))).agents[0] for epsilon in (1.0, 2.0)
    )
    m = local.bound.dimension
    s = local.noise.worst / math.sqrt(USERS)
    k = local.users_until_signal
    assert k / m >= s * math.sqrt(k) * math.sqrt(2 * m) * (1 - 1e-9)
    assert more.users_until_signal < k
    assert explain(make(LikelihoodVI, "tight", privacy)).agents[0].users_until_signal is None


def test_paper_beside_tight_in_words(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    private = JointDP(1.0, 1e-5)
    both = confide.explain(make(UCRLVTR, "paper", private), make(UCRLVTR, "tight", private))
    paper, tight = both.agents
    ratio = paper.relative_noise / tight.relative_noise
    assert both.sentences() == [
        f"ucrl-vtr paper adds {ratio:,.0f} times as much noise as ucrl-vtr tight "
        "for the same privacy request, relative to the L2 sensitivity.",
        f"ucrl-vtr paper gives epsilon = {paper.epsilon:.3g}; the requested epsilon is 1.",
    ]
    text = str(both)
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("JointDP(epsilon=1, delta=1e-05)") == 1  # what is the same is said once
    assert "\x1b" not in text
    assert json.loads(json.dumps(both.to_json(), allow_nan=False))["in_words"] == both.sentences()
    assert "<td>paper: the printed constants</td>" in both._repr_html_()


def test_each_agent_is_compared_with_the_first_and_what_is_the_same_is_said_once():
    private = JointDP(1.0, 1e-5)
    paper, *others = [
        make(UCRLVTR, "paper", private),
        *(make(kind, "tight", private) for kind in (UCRLVTR, UCRLVTRPlus, LinOptVI)),
    ]
    (same,) = explain(*others).sentences()
    assert same.startswith(
        "ucrl-vtr, ucrl-vtr-plus and linopt-vi add the same noise to each number, "
        "relative to the L2 sensitivity; a user contributes"
    )
    more, true = explain(paper, *others[1:]).sentences()
    assert "times as much noise as ucrl-vtr-plus and linopt-vi for the same privacy request" in more
    assert true.startswith("ucrl-vtr gives epsilon")


def test_laplace_noise_is_measured_in_its_own_norm_and_not_beside_gaussian_noise():
    gaussian, laplace = (
        explain(make(UCRLVTR, "tight", privacy)).agents[0]
        for privacy in (JointDP(1.0, 1e-5), JointDP(1.0, delta=0.0))
    )
    for one, norm in ((gaussian, 2), (laplace, 1)):
        assert one.noise.norm == norm
        assert one.relative_noise == one.noise.worst / one.noise.sensitivity
        assert (
            f"times the L{norm} sensitivity"
            in dict(explain(make(UCRLVTR, "tight", one.request)).rows())["noise per number"][0]
        )
    assert laplace.noise.sensitivity == laplace.bound.l1_sensitivity(Relation.REPLACE)
    (agent_facts,) = explain(
        *(make(UCRLVTR, "tight", one.request) for one in (gaussian, laplace))
    ).sentences()
    assert "times as much" not in agent_facts and agent_facts.endswith("so they are not compared.")


def test_linopt_vi_with_known_rewards_is_ucrl_vtr_and_explain_says_so():
    agents = [make(kind, "tight", JointDP(1.0, 1e-5)) for kind in (UCRLVTR, LinOptVI)]
    texts = [one.planning for one in explain(*agents).agents]
    assert texts[1] == texts[0] + "; rewards are known, so this is ucrl-vtr"
    one, other = (confide.run(agent, WORLD, seed=3) for agent in agents)
    assert [segment.value for segment in one.segments] == pytest.approx(
        [segment.value for segment in other.segments]
    )
    assert (
        "this is ucrl-vtr"
        not in explain(make(LinOptVI, "paper", JointDP(1.0, 1e-5))).agents[0].planning
    )


def test_a_release_that_comes_too_late_is_shouted():
    agent = make(UCRLVTR, "tight", JointDP(1.0, 1e-5), schedule=every(100, USERS))
    assert dict(explain(agent).rows())["releases"] == [
        "1, the first after 60 users, for 60 users: TOO LATE to learn from"
    ]


def test_many_agents_fit_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    every_one = [make(*case) for case in CASES if case[2] in (PRIVACY[0], PRIVACY[4], PRIVACY[6])]
    explanation = explain(*every_one)
    names = [one.name for one in explanation.agents]
    assert len(set(names)) == len(names)
    text = str(explanation)
    assert max(map(len, text.splitlines())) <= 80
    assert "users are not protected" in text
    assert any("one message per user" in text for text in dict(explanation.rows())["mechanism"])


def test_rewards_that_are_learned_and_schedules_are_told():
    world = lock_rewards(0)
    agent = make(LinOptVI, "tight", JointDP(1.0, 1e-5), world, schedule=every(20, USERS))
    (agent_facts,) = explain(agent).agents
    assert "the same for rewards" in agent_facts.planning
    assert dict(explain(agent).rows())["releases"] == ["3, the first after 20 users, for 60 users"]
    twice = explain(agent, agent)
    assert [one.name for one in twice.agents][1].endswith("(2)")


def test_an_algorithm_may_describe_itself():
    inner = make(UCRLVTR, "tight", NoPrivacy()).algorithm

    class Mine:
        bound = inner.bound

        def describe(self):
            return Description("mine", "by hand")

    agent = Learner(
        Calibration(Mine(), geometric(USERS)),
        privacy=JointDP(1.0, 1e-5),
        identity=Identity("mine"),
    )
    agent.name = "mine"
    (agent_facts,) = explain(agent).agents
    assert (agent_facts.calibration, agent_facts.planning) == ("mine", "by hand")
    assert np.isfinite(agent_facts.relative_noise)


def test_what_cannot_be_explained():
    with pytest.raises(InvalidParameter, match="at least one agent"):
        explain()
    with pytest.raises(InvalidParameter, match=r"needs a learner .*, got uniform"):
        explain(Uniform(WORLD.public, episodes=3))
    for nothing, name in ((UCRLVTR, "UCRLVTR"), ("ucrl-vtr", "ucrl-vtr")):
        with pytest.raises(
            InvalidParameter,
            match=f"expected an agent, got the class {name}: create an agent first",
        ):
            explain(nothing)


def test_an_agent_is_made_from_plain_values_or_refused_in_one_line():
    def make_by_name(episodes=USERS, privacy=PRIVACY[0], **options):
        return make_agent("ucrl-vtr", WORLD, episodes=episodes, privacy=privacy, **options)

    assert make_by_name(schedule="geometric").schedule == geometric(USERS)
    assert (
        make_by_name(schedule=20).schedule
        == make_by_name(schedule="20").schedule
        == every(20, USERS)
    )
    for wrong, message in [
        (
            {"schedule": "now"},
            "schedule must be geometric, every, adaptive or a number of users, got 'now'",
        ),
        ({"schedule": [10, 60]}, r"schedule must be a Schedule, .* got schedule=\[10, 60\]"),
        ({"episodes": "60"}, "episodes must be a whole number, got episodes='60'"),
        ({"privacy": 1.0}, "privacy must be a privacy request, such as .* got privacy=1.0"),
        ({"bonus_scale": "much"}, "bonus_scale must be a number, got bonus_scale='much'"),
    ]:
        with pytest.raises(InvalidParameter, match=message):
            make_by_name(**wrong)


def test_learners_that_got_stuck_are_named():
    """`benchmarks/results/stuck.md`; the printed constants were not measured there."""
    for agent, warned in (
        (make(UCRLVTR, "tight", JointDP(1.0, 1e-5)), True),
        (make(UCRLVTR, "paper", JointDP(1.0, 1e-5)), False),
    ):
        rows = dict(explain(agent).rows())
        assert ("warning" in rows) == warned
        assert (explain(agent).to_json()["agents"][0]["stuck"] is not None) == warned


def test_with_a_problem_it_estimates_memory_and_planning_time():
    problem = riverswim()
    agent = confide.agents.TabularPSRL(
        problem.public, episodes=1000, privacy=confide.JointDP(1.0, 1e-5)
    )
    assert "peak memory" not in str(explain(agent))
    explanation = explain(agent, problem=problem)
    assert "peak memory" in str(explanation)
    assert "s for each release" in str(explanation)
    facts = explanation.to_json()["agents"][0]
    assert 50e6 < facts["memory_bytes"] < 100e6
    assert 0 < facts["planning_seconds"] < 1
