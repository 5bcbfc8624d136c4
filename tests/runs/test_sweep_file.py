"""A sweep from a file: what is right is read, and what is wrong is said in one line with its key,
its line and what was meant.
"""

import pytest

from confide.errors import InvalidParameter
from confide.privacy.request import JointDP, LocalDP, NoPrivacy
from confide.runs.sweep import make_problem
from confide.runs.sweep_file import parse_sweep, read_sweep

GOOD = """\
# what we want to know tonight
agents = [
  "ucrl-vtr",
  { agent = "ucrl-vtr", calibration = "paper" },
  "uniform",
]
problems = ["lock", { problem = "rand", seed = 1 }]
episodes = 2_000
seeds = 3

[privacy]
epsilons = [0.5, 1]
delta = 1e-6
none = false
"""


def test_a_file_becomes_cells():
    sweep = parse_sweep(GOOD, default_name="tonight")
    cells = list(sweep.cells())
    # uniform makes no promise: once
    assert sweep.name == "tonight" and len(cells) == 2 * (2 + 2 + 1) * 3
    assert {cell.spec.privacy for cell in cells} == {
        JointDP(0.5, 1e-6),
        JointDP(1, 1e-6),
        NoPrivacy(),
    }
    assert {cell.spec.title for cell in cells} == {"ucrl-vtr", "ucrl-vtr paper", "uniform"}
    assert {cell.problem.title for cell in cells} == {"lock", "rand seed=1"}
    assert len({(cell.spec, cell.problem, cell.seed) for cell in cells}) == len(cells)


def test_tables_and_defaults(tmp_path):
    text = (
        '[[agents]]\nagent = "likelihood-vi"\n'
        '[[problems]]\nproblem = "lock"\nhorizon = 4\n'
        '[privacy]\ntrust = "local"\n'
    )
    (tmp_path / "mine.toml").write_text(text)
    sweep = read_sweep(tmp_path / "mine.toml")
    cells = list(sweep.cells())
    assert sweep.name == "mine" and sweep.episodes == 100_000 and sweep.all_seeds == tuple(range(8))
    assert {cell.spec.privacy for cell in cells} == {LocalDP(1.0, 1e-5), NoPrivacy()}


BAD = {
    "a wrong key": ("episodes = 2_000", "episode = 2_000", 8, "episode", "did you mean episodes?"),
    "a wrong key of privacy": ("delta = 1e-6", "detla = 1e-6", 13, "detla", "did you mean delta?"),
    "a key in the wrong place": (
        "seeds = 3",
        "delta = 3",
        9,
        "delta",
        "belongs into the table [privacy]",
    ),
    "an unknown agent": ('  "ucrl-vtr",', '  "ucrl-vrt",', 3, "agents", "did you mean ucrl-vtr?"),
    "an unknown agent in a table": (
        'agent = "ucrl-vtr", cal',
        'agent = "ucrl-vtrr", cal',
        4,
        "agents",
        "did you mean ucrl-vtr?",
    ),
    "an unknown option": (
        "calibration =",
        "calibraton =",
        4,
        "agents",
        "did you mean calibration?",
    ),
    "an impossible calibration": ('"paper"', '"papr"', 4, "agents", "did you mean paper?"),
    "an impossible bonus": (
        'calibration = "paper"',
        'bonus_scale = "big"',
        4,
        "agents",
        "bonus_scale must be a number",
    ),
    "an impossible schedule": (
        'calibration = "paper"',
        'schedule = "geometrc"',
        4,
        "agents",
        "schedule must be geometric",
    ),
    "too many episodes": ("2_000", "1" + 30 * "0", 8, "episodes", "at most 1e15"),
    "epsilons that look alike": ("[0.5, 1]", "[1, 1.0000001]", 12, "epsilons", "must be different"),
    "an unknown problem": ('["lock",', '["lok",', 7, "problems", "did you mean lock?"),
    "an unknown key of a problem": (
        "seed = 1 }",
        "seeds = 1 }",
        7,
        "problems",
        "did you mean seed?",
    ),
    "an impossible epsilon": (
        "[0.5, 1]",
        "[0.5, -1]",
        12,
        "epsilons",
        "epsilon must be positive and finite, got epsilon=-1",
    ),
    "an epsilon that is a text": ("[0.5, 1]", '"all"', 12, "epsilons", "must be a list of numbers"),
    "an epsilon in the list that is a text": (
        "[0.5, 1]",
        '[0.5, "1"]',
        12,
        "epsilons",
        "epsilon must be a number, positive and finite, got epsilon='1'",
    ),
    "an epsilon twice": ("[0.5, 1]", "[1, 1]", 12, "epsilons", "must be different"),
    "an impossible delta": ("1e-6", "2", 13, "delta", "must be in [0, 1)"),
    "no episodes": ("2_000", "0", 8, "episodes", "at least 1"),
    "episodes that are no number": ("2_000", '"many"', 8, "episodes", "must be a whole number"),
    "no seeds": ("seeds = 3", "seeds = 0", 9, "seeds", "at least 1"),
    "a negative seed": ("seeds = 3", "seeds = [0, -1]", 9, "seeds", "at least 0"),
    "a text for none": ("none = false", 'none = "no"', 14, "none", "true or false"),
    "a trust that is none": ("none = false", 'trust = "blind"', 14, "trust", "joint, local"),
    "an agent twice": ('  "uniform",', '  "ucrl-vtr",', None, "agents", "must be different"),
    "no toml": ("seeds = 3", "seeds = ", 9, "", "line 9"),
}


@pytest.mark.parametrize(("old", "new", "line", "key", "hint"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_said_in_one_line(old, new, line, key, hint):
    assert GOOD.count(old) >= 1
    with pytest.raises(InvalidParameter) as caught:
        parse_sweep(GOOD.replace(old, new, 1), "sweep.toml")
    message = str(caught.value)
    assert message.startswith("sweep.toml") and "\n" not in message
    assert key in message and hint in message, message
    assert line is None or f"line {line}" in message, message


def test_the_line_is_that_of_the_option_in_a_table():
    text = (
        '[[agents]]\nagent = "uniform"\n\n'
        '[[agents]]\nagent = "lsvi-ucb"\nbonus_scael = 1\n'
        '[[problems]]\nproblem = "latent"\n'
    )
    with pytest.raises(
        InvalidParameter,
        match=r"line 6: agents: lsvi-ucb has no option bonus_scael; did you mean bonus_scale\?",
    ):
        parse_sweep(text)


@pytest.mark.parametrize("key", ["agents", "problems"])
def test_a_missing_key_is_named_with_an_example(key):
    kept = "\n".join(
        line for line in ('agents = ["uniform"]', 'problems = ["lock"]') if not line.startswith(key)
    )
    with pytest.raises(InvalidParameter, match=f"the key {key} is missing.*such as {key} = "):
        parse_sweep(kept)


def test_an_environment_has_rewards_and_their_range():
    text = (
        'agents = ["uniform"]\n'
        '[[problems]]\nproblem = "gym:FrozenLake-v1"\nhorizon = 5\n'
        'rewards = "public"\nreward_range = [0, 2]\n'
    )
    cell = next(parse_sweep(text).cells())
    assert cell.problem.title == "gym:FrozenLake-v1 horizon=5 rewards=public reward_range=0,2"
    assert "--horizon 5 --rewards public --reward-range 0.0 2.0" in cell.command
    problem = make_problem(cell.problem)
    assert problem.public.rewards is not None and problem.rewards.max() <= 0.5
    with pytest.raises(InvalidParameter, match="reward_range must be two numbers"):
        parse_sweep(text.replace("[0, 2]", "[0]"))
    with pytest.raises(InvalidParameter, match="rewards must be learned or public"):
        parse_sweep(text.replace('"public"', "3"))


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(InvalidParameter, match=r"line 2: problems: no such file: worlds/mine.npz"):
        parse_sweep('agents = ["uniform"]\nproblems = ["worlds/mine.npz"]\n')


def test_a_file_from_windows_and_one_that_is_too_deep(tmp_path):
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert read_sweep(tmp_path / "a.toml").all_seeds == (0, 1, 2)
    with pytest.raises(InvalidParameter, match=r"deep\.toml"):
        parse_sweep("a = " + 5000 * "[" + 5000 * "]", "deep.toml")
