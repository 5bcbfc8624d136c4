"""confide learn: a policy from a log, through one private release of a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.evaluate import Id, Source, States, WithoutPrivacy
from confide.cli.log_release import (
    careful,
    certified,
    command,
    declared,
    make_release,
    only_ours,
    open_ledger,
    print_summary,
    released_before,
    show_release,
    told,
)
from confide.cli.logs import (
    Files,
    MaxSteps,
    MaxTrajectories,
    Probability,
    Reward,
    State,
    Step,
    Trajectory,
    User,
)
from confide.cli.options import AsJson, Yes
from confide.cli.plan import Delta, Discount, Epsilon, Relation, promise_of

if TYPE_CHECKING:
    from confide.logs import Logs
    from confide.offline import ModelRelease, PrivateModel
    from confide.release.files import FileRelease
    from confide.report.learned import Learned

_ROWS = 15  # of the table on a terminal

Actions = Annotated[
    int | None,
    typer.Option(
        help="Number of actions; actions are numbered from 0.",
        min=1,
        show_default="as the log declares",
    ),
]
Transitions = Annotated[
    int,
    typer.Option(
        help="Number of transitions counted per user; the noise grows with its square root.", min=1
    ),
]
Rewards = Annotated[
    Path | None,
    typer.Option(
        help="Public rewards: .npy or .csv, one row per state; one column, or one column per action.",
        show_default="learned",
    ),
]
RewardRange = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH",
        help="Public range that learned rewards are clipped to; needed without --rewards.",
        show_default=False,
    ),
]
Terminal = Annotated[
    list[str] | None,
    typer.Option(
        help="Public terminal state, by number or label: it pays its reward once, and nothing follows. "
        "Can be given several times.",
        show_default=False,
    ),
]
Ends = Annotated[
    bool | None,
    typer.Option(
        "--ends/--no-ends",
        help="What it means that a trajectory has fewer than --max-steps rows: its last row was the end (--ends), or the record stops "
        "there (--no-ends). Must be stated.",
        show_default=False,
    ),
]
Support = Annotated[
    Path | None,
    typer.Option(
        help="Public transitions that are possible: rows s,a,s' in .npy or .csv.",
        show_default="all",
    ),
]
ReturnBound = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH",
        help="Range of returns; needed if the discount is 1.",
        show_default=False,
    ),
]
Pessimism = Annotated[
    float,
    typer.Option(
        help="Number of standard deviations by which uncertain values are lowered; 0 uses the estimates unchanged.",
        min=0,
    ),
]
Holdout = Annotated[
    float | None,
    typer.Option(
        help="Share of users to hold out: the policy is learned from the others and tested on these, at no further privacy cost.",
        show_default="none",
    ),
]
SplitKey = Annotated[
    str,
    typer.Option(
        help="Key of the hash of user ids that chooses the held-out users.", show_default=False
    ),
]


def learn(
    files: Files,
    states: States = None,
    actions: Actions = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    discount: Discount = 0.95,
    transitions: Transitions = 20,
    rewards: Rewards = None,
    reward_range: RewardRange = None,
    terminal: Terminal = None,
    ends: Ends = None,
    support: Support = None,
    return_bound: ReturnBound = None,
    pessimism: Pessimism = 1.0,
    holdout: Holdout = None,
    split_key: SplitKey = "",
    relation: Relation = "replace",
    no_privacy: WithoutPrivacy = False,
    max_trajectories: MaxTrajectories = 1,
    max_steps: MaxSteps = 10_000,
    user: User = "user",
    trajectory: Trajectory = "trajectory",
    step: Step = "step",
    state: State = "state",
    reward: Reward = "reward",
    action: Annotated[str, typer.Option(help="Column of actions.")] = "action",
    probability: Probability = "",
    ledger: Annotated[
        Path | None, typer.Option(help="Ledger file to charge.", show_default=False)
    ] = None,
    yes: Yes = False,
    name: Id = None,
    source: Source = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of fast noise.", min=0, show_default=False)
    ] = None,
    backend: Annotated[
        str, typer.Option(help="Where the log is read: local (processes), ray or dask.")
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(help="Number of processes that read the log.", min=1, show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Save model, policy, certificate and report to this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn a policy from a log, with differential privacy for its users: release a model once, then plan in it."""
    from confide.arguments import real
    from confide.execution import check_backend
    from confide.offline import ModelRelease
    from confide.release.files import FileRelease
    from confide.release.noise import choose_noise
    from confide.report.learned import Learned

    states = declared("state", states, files)
    actions = declared("action", actions, files)
    question = ModelRelease(
        states=states,
        actions=actions,
        discount=discount,
        transitions=transitions,
        rewards=_table(rewards, "rewards", states),
        reward_range=reward_range,
        return_bound=return_bound,
        terminal=_terminal(terminal, states, files),
        ends=ends,
        support=_support(support),
    )
    real("pessimism", pessimism, at_least=0, at_most=1e6)
    privacy = promise_of(epsilon, delta, relation, no_privacy)
    noise = choose_noise(source, seed, lattice=question.lattice, no_privacy=no_privacy)
    check_backend(backend, workers)
    layout: dict[str, Any] = {
        "user": user,
        "trajectory": trajectory or None,
        "step": step or None,
        "state": state,
        "reward": reward,
        "action": action,
        "max_trajectories": max_trajectories,
        "max_steps": max_steps,
    }
    if probability:
        layout["probability"] = probability
    part = (
        None if holdout is None else _held_out(holdout, split_key, no_privacy, question, max_steps)
    )
    with only_ours(no_privacy):
        asked = FileRelease(
            question, privacy, noise, files, layout, open_ledger(ledger, privacy), name, part
        )
        with careful(asked, "model", out, yes=yes):
            before = released_before(asked)
            logs, test = asked.open()
            model, warned = make_release(asked, logs.on(backend, workers=workers), out, as_json)
            learned = Learned(model, model.plan(pessimism), told(asked, before))
            if test is not None:
                learned = _tested(asked, learned, test.on(backend, workers=workers))
            _show(learned, warned, out, as_json)


def _held_out(
    holdout: float, key: str, no_privacy: bool, made: "ModelRelease", max_steps: int
) -> tuple[float, str]:
    """The share and the key, if the test can be made: asked before anything is charged."""
    from confide.arguments import real
    from confide.errors import InvalidParameter
    from confide.offline.improvement import check_returns

    check_returns(made.table(), max_steps)
    if no_privacy:
        raise InvalidParameter(
            "--holdout needs privacy: without noise the stated level of the bound does not hold"
        )
    return real("--holdout", holdout, above=0, below=1), key


def _tested(asked: "FileRelease[PrivateModel]", learned: "Learned", test: "Logs") -> "Learned":
    """On the people held out: the ledger charges the larger loss of the two parts.

    What goes on as logged cannot be better: it is not tested.
    """
    from dataclasses import replace

    if not learned.policy.changed.any():
        reason = "not tested, and no bound: the policy is the logged one in every state, so there is nothing to test"
        return replace(learned, said=(*learned.said, ("tested", f"{reason}.")))
    improvement = learned.model.improvement(
        learned.policy,
        test,
        ledger=asked.ledger,
        noise=asked.noise.source(),
        id=f"{asked.id} held out" if asked.ledger else None,
    )
    return replace(learned, improvement=improvement)


def _table(path: Path | None, what: str, states: int) -> Any:
    """Public numbers [s, a], or [s] if there is one column."""
    from confide.release.inputs import read_table

    if path is None:
        return None
    table = read_table(path, what)
    return table.ravel() if table.size == states else table


def _terminal(listed: list[str] | None, states: int, files: list[str]) -> Any:
    import numpy as np

    from confide.errors import InvalidParameter
    from confide.logs.labels import labels_of

    if not listed:
        return None
    labels = labels_of(files).state
    places = {label: place for place, label in enumerate(labels or map(str, range(states)))}
    places |= {str(place): place for place in range(states) if str(place) not in places}
    for each in listed:
        if each not in places:
            raise InvalidParameter(
                f"--terminal must be a state in 0..{states - 1} or a declared label, got {each!r}"
            )
    return np.isin(np.arange(states), [places[each] for each in listed])


def _support(path: Path | None) -> Any:
    from confide.arguments import integers
    from confide.release.inputs import read_table

    return None if path is None else integers("support", read_table(path, "support"))


def _show(learned: "Learned", warned: list[str], out: Path | None, as_json: bool) -> None:
    from confide.report.learned import record, write_learned

    files = {}
    if out is not None:
        files = {"report": str(write_learned(learned, out, command=command()))}
        files["policy"] = (
            f"{out / 'policy.json'}; model: {out / 'model.npz'} (confide.offline.PrivateModel.load)"
        )
        if learned.model.certificate is not None:
            files["certificate"] = certified(out)
    show_release(record(learned), lambda: _print(learned), warned, files, out, as_json)


def _print(learned: "Learned") -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from confide.report.learned import HEADS, rows, words

    console = print_summary(learned.title, words(learned))
    table = Table(box=box.SIMPLE, pad_edge=False)
    for place, head in enumerate(HEADS):
        table.add_column(head, justify="left" if place < 2 else "right")
    shown = rows(learned)
    for row in shown[:_ROWS]:
        table.add_row(*map(Text, row))
    console.print(table)
    if len(shown) > _ROWS:
        console.print(
            Text(
                f"{len(shown) - _ROWS:,} more states are not shown (--out and --json contain all).",
                style="dim",
            )
        )
