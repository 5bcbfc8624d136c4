"""Mixtures of signed features: who runs on them, with which constants, and who refuses them and
says why.
"""

import math

import numpy as np
import pytest
from feature_mixtures import signed_mixture

import confide
from confide.agents.catalogue import AGENTS, fits, make_agent, why_not
from confide.audit import verify
from confide.errors import InvalidParameter
from confide.mixtures.linopt_po import LinOptPO
from confide.mixtures.linopt_vi import LinOptVI
from confide.mixtures.printed import MixtureSetting, printed, printed_plus
from confide.mixtures.ucrl_vtr import UCRLVTR
from confide.mixtures.ucrl_vtr_plus import UCRLVTRPlus
from confide.privacy import JointDP, LocalDP, NoPrivacy
from confide.problems import FeatureMixtureMDP, TabularMDP, rand
from confide.runs.runner import run

# C_w = 4.5 is above sqrt(d) = 2.
LONG = signed_mixture(length=0.25)
# C_w = 1.5 is below it.
SHORT = signed_mixture(length=1.0)
PRIVATE = JointDP(1.0, 1e-5)


def test_the_weights_are_as_long_as_the_tests_need():
    assert LONG.weight_bound > math.sqrt(4) > SHORT.weight_bound
    assert not LONG.features.nonnegative


@pytest.mark.parametrize("agent", [UCRLVTR, UCRLVTRPlus])
@pytest.mark.parametrize("privacy", [PRIVATE, LocalDP(1.0, 1e-5), NoPrivacy()], ids=str)
def test_ucrl_vtr_runs_for_any_norm_of_the_weights(agent, privacy):
    paper_agent = agent(LONG.public, episodes=20, privacy=privacy, calibration="paper")
    done = run(paper_agent, LONG, seed=0)
    verify(done.certificate)
    assert len(done.checkpoints) == 20
    assert paper_agent.guarantee.epsilon <= privacy.epsilon


def test_the_printed_widths_contain_the_bound_on_the_weights():
    for problem in (LONG, SHORT):
        setting = MixtureSetting(20, 4, 4, weight_bound=problem.weight_bound, nonnegative=False)
        agent = UCRLVTR(problem.public, episodes=20, privacy=PRIVATE, calibration="paper")
        constants = printed(PRIVATE, setting)
        assert agent.algorithm.regressions.planner.regularizer.beta == constants.beta
        # Cor. 5: 3 (C_w + 1) sqrt(lambda + Upsilon) and a part without C_w
        kernels = printed(PRIVATE, MixtureSetting(20, 4, 4))
        grows = 3 * (problem.weight_bound - 2) * math.sqrt(16 + constants.upsilon)
        assert constants.beta - kernels.beta == pytest.approx(grows)
        plus = UCRLVTRPlus(problem.public, episodes=20, privacy=PRIVATE, calibration="paper")
        widths = plus.algorithm.constants.widths(7)
        first, second = printed_plus(PRIVATE, MixtureSetting(20, 4, 4)).upsilon
        for width, kernel_width, upsilon in zip(
            widths,
            printed_plus(PRIVATE, MixtureSetting(20, 4, 4)).widths(7),
            (first, first, second),
            strict=True,
        ):
            grows = 3 * (problem.weight_bound - 2) * math.sqrt(1 + upsilon)
            assert width - kernel_width == pytest.approx(grows, rel=1e-6)


def test_the_scale_of_the_features_changes_nothing():
    """Features times 7 and weights divided by 7 are the same problem, so releases and policies are
    the same but for rounding.
    """
    other = FeatureMixtureMDP(
        LONG.features.divide_by(1 / 7),
        LONG.weights / 7,
        LONG.rewards,
        LONG.start,
        weight_bound=LONG.weight_bound / 7,
        value_bound=7.0,
    )
    for agent in (UCRLVTR, UCRLVTRPlus):
        runs = [
            run(agent(each.public, episodes=30, privacy=PRIVATE, calibration="paper"), each, seed=1)
            for each in (LONG, other)
        ]
        assert runs[0].regret[-1] == pytest.approx(runs[1].regret[-1], abs=1e-9)


def test_linopt_refuses_weights_that_are_longer_than_its_assumption():
    for agent in (LinOptVI, LinOptPO):
        with pytest.raises(
            InvalidParameter,
            match=r"weight_bound must be at most sqrt\(d\) = 2, because \[Zhou22, Assumption 1\]",
        ):
            agent(LONG.public, episodes=10, privacy=PRIVATE, calibration="paper")
        paper_agent = agent(SHORT.public, episodes=10, privacy=PRIVATE, calibration="paper")
        verify(run(paper_agent, SHORT, seed=0).certificate)


def test_a_table_runs_as_a_mixture_and_is_learned_without_a_bonus():
    """Without noise, 1000 users, no width: uniform play loses 369; measured 30 (greedy policies)
    and 131 (LinOpt-PO).
    """
    rng = np.random.default_rng(0)
    table = TabularMDP(
        rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((3, 2)), np.eye(3)[0], horizon=3
    )
    problem = FeatureMixtureMDP.from_table(table)
    for agent in (UCRLVTR, UCRLVTRPlus, LinOptVI, LinOptPO):
        paper_agent = agent(
            problem.public, episodes=1000, privacy=NoPrivacy(), calibration="paper", bonus_scale=0.0
        )
        assert run(paper_agent, problem, seed=0).regret[-1] < 185


def test_agents_that_need_kernels_say_so():
    for name in ("likelihood-vi", "questions-vi", "no-data"):
        assert not fits(name, LONG.public)
        assert why_not(name, LONG.public) == "needs probability kernels with weights on the simplex"
        assert fits(name, rand(0).public)
    for name in ("ucrl-vtr", "ucrl-vtr-plus", "linopt-vi", "linopt-po"):
        assert fits(name, LONG.public)
    for name in ("LikelihoodVI", "QuestionsVI"):
        with pytest.raises(InvalidParameter, match=f"{name} needs known probability kernels"):
            getattr(confide.agents, name)(LONG.public, episodes=10, privacy=PRIVATE)
    with pytest.raises(
        InvalidParameter,
        match=r"of probability kernels with known rewards, "
        r"but .* with features of any sign: try ucrl-vtr",
    ):
        make_agent("likelihood-vi", LONG, episodes=10, privacy=PRIVATE)
    with pytest.raises(InvalidParameter, match="known kernels and known rewards"):
        AGENTS["no-data"](LONG.public, episodes=10)


def test_a_service_refuses_the_problem(tmp_path):
    from confide.service.core.spec import parse_spec

    LONG.save(tmp_path / "signed.npz")
    spec = parse_spec(
        f'name = "one"\nagent = "ucrl-vtr"\nproblem = "{tmp_path / "signed.npz"}"\n'
        "epsilon = 1.0\nusers = 100\n"
    )
    with pytest.raises(InvalidParameter, match="serves no mixtures of signed features"):
        spec.make_problem()
