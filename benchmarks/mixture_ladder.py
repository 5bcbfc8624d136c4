"""What each improvement over the paper's UCRL-VTR is worth, on lock at epsilon = 1.

    python benchmarks/mixture_ladder.py [--quick] [--write]

Each row adds one improvement. Rows are composed from the library's own parts; all of them keep
JointDP(1, 1e-5). A release per user is slow, so the rows that have one take two seeds, all others
eight. --quick leaves those rows out, and takes two seeds of the others.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cases import Case, joint, measure_cases
from record import record

from confide.identity import Identity
from confide.learning.algorithm import Calibration
from confide.learning.learner import Learner
from confide.mechanisms.counters import Buffered, Toeplitz, Tree
from confide.mixtures.linopt_vi import BALANCE, Regressions, tight, value_iteration
from confide.mixtures.regression_choices import Choices
from confide.mixtures.regression_planning import MixturePlanner
from confide.mixtures.ucrl_vtr import paper
from confide.mixtures.value_features import centred, raw, reduced, value_steps
from confide.planners.regression import Repair
from confide.privacy.request import Request
from confide.privatizers import every, every_episode, geometric
from confide.runs.spec import Named
from confide.statistics.bounds import RegressionRows
from mixtures import FRESH, SEEDS, table

EPISODES = 100_000


@dataclass(frozen=True)
class Rung:
    name: str
    # A key of MAKERS, or an agent.
    make: str
    epsilon: float = 1.0
    seeds: Sequence[int] = SEEDS
    # Whether estimates are projected.
    simplex: bool = False
    options: tuple[tuple[str, object], ...] = ()

    @property
    def case(self) -> Case:
        agent = self.make
        options = self.options
        if self.make in MAKERS:
            agent = "mixture_ladder:Composed"
            options = (("step", self.make), ("simplex", self.simplex))
        return Case("lock", agent, joint(self.epsilon), EPISODES, self.seeds, options)


def change_calibration(before: Calibration, **fields) -> Calibration:
    """The same with other parts of its regression."""
    regressions = before.algorithm.regressions
    bound = fields.pop("bound", regressions.bound)
    regressions = Regressions(replace(regressions.planner, **fields), bound)
    return replace(before, algorithm=value_iteration(regressions, before.schedule))


def paper_calibration(public, privacy) -> Calibration:
    return paper(public, Choices(EPISODES, privacy, "paper"))


def printed_noise(public, privacy) -> Calibration:
    """The paper's noise, but eigenvalues are repaired, and the bonus is ucrl-vtr's."""
    before = paper_calibration(public, privacy)
    return change_calibration(before, regularizer=Repair(before.algorithm.bound.balance))


def exact(public, _privacy, counter=Tree, schedule=None) -> Calibration:
    """Return one joint query with exact accounting.

    Values are in units of H, so that rows are in [0, 1]^d and targets in [0, 1].
    """
    d = public.dimension
    H = public.horizon
    times = schedule or every_episode(EPISODES)
    bound = RegressionRows(
        value_steps(H), d, row_norm=math.sqrt(d), target=1.0, balance=math.sqrt(d), nonnegative=True
    )
    planner = MixturePlanner(public, raw(d, H), Repair(bound.balance), plain=True)
    regressions = Regressions(planner, bound)
    return Calibration(value_iteration(regressions, times), times, counter(times.leaves))


def centred_values(public, privacy) -> Calibration:
    return change_calibration(
        exact(public, privacy, Toeplitz, geometric(EPISODES)), features=centred(public.dimension)
    )


def fewer_dimensions(public, privacy) -> Calibration:
    """Return the step with rows in d - 1 dimensions.

    A vector phi in [0, 1]^d is at most sqrt(ceil(d / 2) floor(d / 2) / d) from its mean.
    """
    d = public.dimension
    n = value_steps(public.horizon)
    bound = RegressionRows(
        n, d - 1, row_norm=math.sqrt((d // 2) * ((d + 1) // 2) / d), target=1.0, balance=BALANCE
    )
    return change_calibration(
        centred_values(public, privacy),
        features=reduced(d),
        bound=bound,
        regularizer=Repair(bound.balance),
    )


def public_weights(public, privacy) -> Calibration:
    """All of ucrl-vtr but the simplex."""
    before = tight(public, Choices(EPISODES, privacy), value_iteration)
    return change_calibration(
        before, regularizer=replace(before.algorithm.regressions.planner.regularizer, simplex=None)
    )


MAKERS: dict[str, Callable[..., Calibration]] = {
    "printed": paper_calibration,
    "printed noise": printed_noise,
    "tree": exact,
    "square root": lambda public, privacy: exact(public, privacy, Buffered),
    "tree 1000": lambda public, privacy: exact(public, privacy, Tree, every(100, EPISODES)),
    "square root 1000": lambda public, privacy: exact(
        public, privacy, Toeplitz, every(100, EPISODES)
    ),
    "geometric": lambda public, privacy: exact(public, privacy, Toeplitz, geometric(EPISODES)),
    "centred": centred_values,
    "reduced": fewer_dimensions,
    "weights": public_weights,
}
AGENTS = ("ucrl-vtr", "likelihood-vi")
SLOW = ("printed", "printed noise", "tree", "square root")

STEPS = {
    "printed": "the paper's constants [Luyo21, Cor. 5]",
    "printed noise": "the paper's noise; eigenvalues repaired, a small bonus",
    "tree": "exact accounting of one joint query, GOE noise; tree over K releases",
    "square root": "+ square-root factorisation instead of the tree, four buffers",
    "tree 1000": "exact accounting, GOE noise; a release every 100 users, tree over 1000 releases",
    "square root 1000": "+ square-root Toeplitz instead of the tree",
    "geometric": "+ geometric schedule: Toeplitz over 32 releases",
    "centred": "+ centred values",
    "reduced": "+ rows in d - 1 dimensions",
    "weights": "+ public weights per (s, a)",
}
LADDER = [
    *(Rung(name, make) for make, name in STEPS.items() if make not in ("tree", "square root")),
    *(
        Rung(name, make, simplex=True)
        for make, name in STEPS.items()
        if not make.startswith("printed")
    ),
]
ENDS = [
    Rung(
        f"{agent}, {'without privacy' if epsilon == math.inf else f'eps = {epsilon:g}'}",
        agent,
        epsilon,
    )
    for agent in AGENTS
    for epsilon in (1.0, 10.0, math.inf)
]
DEFAULTS = Rung("defaults: first 30, ratio 1.3, spread 0.35", "likelihood-vi", seeds=FRESH)
TRIED = [
    DEFAULTS,
    *(
        replace(
            DEFAULTS,
            name=f"releases after {first} users, then x {ratio}",
            options=(
                (
                    "schedule",
                    Named(f"{first}x{ratio}", geometric(EPISODES, first=first, ratio=ratio)),
                ),
            ),
        )
        for first in (20, 50)
        for ratio in (1.2, 1.4)
    ),
    *(
        replace(
            DEFAULTS, name=f"spread of the samples {spread}", options=(("bonus_scale", spread),)
        )
        for spread in (0.0, 0.2, 0.5, 1.0)
    ),
]


class Composed(Learner):
    """An agent from the parts of one step of the ladder."""

    def __init__(
        self, public, *, episodes: int, privacy: Request, step: str, simplex: bool
    ) -> None:
        assert episodes == EPISODES
        chosen = MAKERS[step](public, privacy)
        if simplex:
            planner = chosen.algorithm.regressions.planner
            chosen = change_calibration(
                chosen, regularizer=replace(planner.regularizer, simplex=planner.features)
            )
        identity = Identity("composed", 1, public=public, step=step, simplex=simplex)
        super().__init__(chosen, privacy=privacy, identity=identity)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    ladder, ends, tried = (
        [
            replace(
                rung, seeds=rung.seeds[:2] if options.quick or rung.make in SLOW else rung.seeds
            )
            for rung in rungs
            if not (options.quick and rung.make in SLOW)
        ]
        for rungs in (LADDER, ENDS, TRIED)
    )
    samples = measure_cases(rung.case for rung in (*ladder, *ends, *tried))
    steps = [
        (f"{rung.name} | {'yes' if rung.simplex else 'no'}", samples[rung.case]) for rung in ladder
    ]
    agents = [(rung.name, samples[rung.case]) for rung in ends]
    variants = [(rung.name, samples[rung.case]) for rung in tried]
    sections = [
        "Lock, K = 1e5, eps = 1, delta = 1e-5, run seeds 0..7. "
        "Rows with a release per user (the first two without the simplex and the "
        "first two with it) have run seeds 0 and 1. A row that begins with + adds one change to "
        "the row above. From the second row on, "
        "negative eigenvalues are repaired and the bonus is that of ucrl-vtr. "
        "Each step is shown without and with projection of the "
        "estimates onto the simplex. The last row is ucrl-vtr.",
        "\n".join(table("step | simplex", steps)),
        "The agents themselves, with the same seeds:",
        "\n".join(table("agent", agents)),
        "likelihood-vi at eps = 1 with other release schedules, "
        "and with another spread of its posterior samples; run seeds "
        f"{tried[0].seeds[0]}..{tried[0].seeds[-1]}:",
        "\n".join(table("likelihood-vi", variants)),
    ]
    record(
        "From the paper's UCRL-VTR to the defaults",
        "\n\n".join(sections) + "\n",
        write=options.write,
    )


if __name__ == "__main__":
    main()
