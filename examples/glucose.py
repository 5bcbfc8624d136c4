"""Private insulin dosing for many patients: its benefit, its cost, and what an adversary who knows all other patients learns about one.

    python examples/glucose.py [--quick] [--out docs/glucose]

Draws patient.svg, learning.svg and adversary.svg, and prints every number of
docs/agents/insulin_dosing.md, from fixed seeds. It takes some minutes.
"""

import argparse
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import confide
from confide.agents import OFULQ, CertaintyEquivalentLQ, ThompsonLQ
from confide.audit import Audit, refute, subject, verify
from confide.audit.mechanisms import make_source
from confide.mechanisms import Leaves
from confide.mechanisms.sources import FastSource
from confide.policy import LinearPolicy
from confide.privacy.loss import GaussianDP, Loss, loss_for
from confide.privatizers import CentralPrivatizer
from confide.report.charts import LIGHT, NEUTRAL
from confide.trajectory import Trajectories

Array = npt.NDArray[np.float64]
Pair = tuple[Trajectories, Trajectories]
DELTA = 1e-5
PROMISES = {
    f"epsilon = {epsilon:g}": confide.JointDP(epsilon, DELTA) for epsilon in (0.5, 1.0, 5.0)
}
PROMISES |= {"no privacy": confide.NoPrivacy()}
OURS = PROMISES["epsilon = 1"]
GREY, BLUE, ORANGE, GREEN, PURPLE = NEUTRAL[0], *LIGHT[:4]
COLOURS = dict(zip(PROMISES, (ORANGE, BLUE, GREEN, PURPLE), strict=True))
DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (4.5, 2)), "dot": (0, (1, 1.8))}
TEXT, SMALL = 10.5, 9.5


@dataclass(frozen=True)
class Effort:
    """The size of the computation."""

    patients: int = 20_000
    others: tuple[int, ...] = (10_000, 100_000)  # numbers of patients
    many: int = 100_000  # as in benchmarks/results/control.md
    seeds: int = 20
    draws: int = 2_000  # of the noise around one patient
    attacks: int = 300_000
    shown: int = 100_000  # attacks in the picture
    whole: int = 10_000  # attacks on a learner from end to end
    plain: int = 3_000  # attacks without privacy


QUICK = Effort(6_000, (), 6_000, 1, 200, 1_000, 500, 100, 100)


def served(
    system: Any, privacy: Any, patients: int, seed: int, agent: Any = CertaintyEquivalentLQ
) -> confide.Run:
    return confide.run(agent(system.public, episodes=patients, privacy=privacy), system, seed=seed)


def share(run: confide.Run) -> float:
    """The regret of a whole run over that of doing nothing: 0 is the optimum, 1 is nothing, more does harm."""
    return float(run.regret[-1] / (run.episodes * (run.optimal_value - run.uniform_value)))


def repaid(run: confide.Run) -> int:
    """After how many patients all of them together have, lastingly, cost no more than doing nothing; too many if never."""
    users = np.array([segment.users for segment in run.segments])
    # values are minus costs
    extra = np.array([run.uniform_value - segment.value for segment in run.segments])
    owed, ends = np.cumsum(users * extra), np.cumsum(users)
    last = int(np.flatnonzero(owed > 0).max(initial=-1))
    if last < 0:
        return 0
    return (
        run.episodes + 1
        if last + 1 == len(users)
        else int(np.ceil(ends[last] - owed[last] / extra[last + 1]))
    )


# One patient


def closed_loops(
    system: Any, policies: dict[str, LinearPolicy], draws: int
) -> dict[str, tuple[Array, Array]]:
    """Glucose [draw, step] and insulin [draw, step] of one patient under each policy, with the same noise under all."""
    rng, n, H = np.random.default_rng(0), len(system.A), system.horizon
    noise = rng.normal(size=(draws, H, n))
    noise *= (
        system.noise_radius
        * rng.uniform(size=(draws, H, 1)) ** (1 / n)
        / np.linalg.norm(noise, axis=2, keepdims=True)
    )
    found = {}
    for name, policy in policies.items():
        # glucose above its target, insulin acting less than it should
        state = np.tile([0.8, -0.6, 0.0], (draws, 1))
        glucose, insulin = [state[:, 0]], []
        for h in range(H):
            given = state @ policy.gains[h].T
            state = state @ system.A.T + given @ system.B.T + noise[:, h]
            glucose.append(state[:, 0])
            insulin.append(given[:, 0])
        found[name] = np.stack(glucose, axis=1), np.stack(insulin, axis=1)
    return found


def draw_patient(loops: dict[str, tuple[Array, Array]]) -> Figure:
    figure, (top, middle, bottom) = panels((2.5, 1.9, 1.9), share_x=True)
    without = loops["without control"][0]
    for (name, (glucose, insulin)), colour, dash in zip(
        loops.items(), (GREY, BLUE, GREEN), ("dot", "solid", "dash"), strict=True
    ):
        band(top, glucose, colour, dash, name)
        if name != "without control":
            band(middle, glucose - without, colour, dash, name)
            band(bottom, insulin, colour, dash, name)
    top.set_ylabel("glucose")
    middle.set_ylabel("glucose: change\nby control")
    bottom.set(ylabel="insulin given", xlabel="step")
    top.legend(frameon=False, fontsize=SMALL)
    top.set_title("One patient, deviations; means and 80 % bands", fontsize=TEXT)
    return figure


def tell_patient(system: Any, run: confide.Run, loops: dict[str, tuple[Array, Array]]) -> None:
    saved = 100 * (1 - system.optimal_value / system.uniform_value)
    print(
        f"\nOne patient; cost: doing nothing {-system.uniform_value:.4f}, optimum {-system.optimal_value:.4f}, {saved:.2f} % less"
    )
    print(f"  private, seed 0: the last policy costs {system.cost(run.policy):.4f}")
    for name, (glucose, insulin) in loops.items():
        print(f"  {name}: glucose {glucose[:, 5].mean():.3f} at step 6, squares add up to", end="")
        print(
            f" {(glucose[:, :-1] ** 2).sum(axis=1).mean():.3f}; first dose {insulin[:, 0].mean():.2f}"
        )


# Many patients


def tell_learning(system: Any, runs: dict[str, list[confide.Run]], effort: Effort) -> None:
    print(f"\nMany patients: regret / that of doing nothing, {effort.seeds} seeds")
    for name, some in runs.items():
        print(f"  {name}, {effort.patients:,} patients: {spread(some)}")
    for size in (gate(system, OURS), *effort.others):
        print(
            f"  epsilon = 1, {size:,} patients: {spread([served(system, OURS, size, seed) for seed in range(effort.seeds)])}"
        )
    for name, privacy in PROMISES.items():
        print(f"  {name}: no exploration below {gate(system, privacy):,} patients")
    alone, tried = CertaintyEquivalentLQ(
        system.public, episodes=effort.patients, privacy=OURS
    ).schedule.times[:2]
    print(
        f"  epsilon = 1: the first {alone} patients get no input, the next {tried - alone} explore"
    )
    first = runs["epsilon = 1"][0]
    costs = [(segment.users, -segment.value) for segment in first.segments]
    worse = sum(users for users, cost in costs if cost > -system.uniform_value)
    print(
        f"  seed 0: regret {first.regret[-1]:.0f} of {first.regret[-1] / share(first):.0f}, {share(first):.2f};",
        end="",
    )
    most = max(cost for _, cost in costs)
    print(
        f" {worse:,} patients cost more than doing nothing, up to {most:.4f}, {100 * (most / -system.uniform_value - 1):.0f} % more"
    )


def tell_limits(system: Any, effort: Effort) -> None:
    print("\nLimits: regret / that of doing nothing")
    ofu = [served(system, OURS, effort.patients, seed, OFULQ) for seed in range(effort.seeds)]
    print(f"  ofu-lq, epsilon = 1, {effort.patients:,} patients: {spread(ofu)}")
    for agent in (CertaintyEquivalentLQ, ThompsonLQ):
        half = PROMISES["epsilon = 0.5"]
        runs = [
            served(system, half, effort.many, seed, agent) for seed in range(min(10, effort.seeds))
        ]
        print(f"  {agent.name}, epsilon = 0.5, {effort.many:,} patients: {spread(runs)}")


def spread(runs: list[confide.Run]) -> str:
    shares, after, K = [share(run) for run in runs], [repaid(run) for run in runs], runs[0].episodes
    middle, most = (
        f"after {each:,.0f}" if each <= K else "never" for each in (np.median(after), max(after))
    )
    found = f"mean {np.mean(shares):.2f}, median {np.median(shares):.2f}, most {max(shares):.2f}"
    return f"{found}; repaid {middle} (median), {most} (most); never in {sum(each > K for each in after)} of {len(runs)}"


def gate(system: Any, privacy: Any) -> int:
    """The fewest patients with whom the learner tries inputs: below, it has one leaf, and does nothing."""
    low, high = 1, 2**20
    while low < high:
        middle = (low + high) // 2
        tries = (
            CertaintyEquivalentLQ(system.public, episodes=middle, privacy=privacy).schedule.leaves
            > 1
        )
        low, high = (low, middle) if tries else (middle + 1, high)
    return low


def draw_learning(system: Any, runs: dict[str, list[confide.Run]]) -> Figure:
    figure, (top, bottom) = panels((2.7, 2.7), share_x=True)
    best = -system.optimal_value
    for name, some in runs.items():
        look = {
            "color": COLOURS[name],
            "linestyle": DASHES["dash" if name == "no privacy" else "solid"],
            "linewidth": 1.6,
        }
        extra = np.median([-run.value - best for run in some], axis=0)
        top.plot(
            some[0].checkpoints, 100 * extra / best, drawstyle="steps-post", label=name, **look
        )
        so_far = np.mean([run.regret / run.checkpoints for run in some], axis=0)
        bottom.plot(some[0].checkpoints, 100 * so_far / best, **look)
    for ax in (top, bottom):
        nothing = 100 * (-system.uniform_value - best) / best
        ax.axhline(
            nothing,
            color=GREY,
            linestyle=DASHES["dot"],
            linewidth=1.6,
            label="doing nothing" if ax is top else None,
        )
        ax.set(xscale="log", yscale="log", xlim=(10, some[0].episodes))
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    top.set_ylabel("this patient, median")
    bottom.set(ylabel="all so far, mean", xlabel="patients")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=SMALL)
    top.set_title(f"Cost above the optimum, in %, {len(some)} seeds", fontsize=TEXT)
    return figure


# The adversary


@dataclass(frozen=True)
class Eavesdropper:
    """Somebody who has the records of all patients but X, and reads what is released of the first leaf, which X is in.

    X is one of two. What is released later depends on X through this release alone, so it tells nothing more.
    """

    system: Any
    privacy: Any
    patients: int
    pair: Pair
    twin: str | None = None

    @property
    def loss(self) -> Loss:
        return loss_for(self.privacy)

    @cached_property
    def _learner(self) -> CertaintyEquivalentLQ:
        # The patients are simulated, and an attack needs many fast draws.
        noise = FastSource(np.random.default_rng(0))
        made = CertaintyEquivalentLQ(
            self.system.public, episodes=self.patients, privacy=self.privacy, noise=noise
        )
        made.next_batch()
        return made

    @cached_property
    def leaves(self) -> Pair:
        """All patients of the leaf, in either world."""
        batch = self._learner.next_batch()
        others = self.system.sample(batch.policy, batch.users - 1, np.random.default_rng(1))
        names = ("states", "actions", "rewards")
        one, other = (
            Trajectories(
                *(np.concatenate([getattr(x, name), getattr(others, name)]) for name in names)
            )
            for x in self.pair
        )
        return one, other

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        learner, source, privacy = self._learner, make_source("fast", self.twin, rng), self.privacy
        counter = (
            None if isinstance(privacy, confide.NoPrivacy) else Leaves(learner.schedule.leaves)
        )
        leaf, seen = learner.contribution(self.leaves[world]), []
        for _ in range(runs):
            made = CentralPrivatizer(
                learner.algorithm.bound,
                learner.schedule,
                privacy=privacy,
                noise=source,
                counter=counter,
            )
            made.absorb(leaf)
            seen.append(made.release().values)
        return np.stack(seen)

    def score(self) -> Any:
        """For Gaussian noise no test is better: how far the release is from the middle of both worlds, in deviations of the noise."""
        one, other = (self._learner.contribution(leaf).values for leaf in self.leaves)
        scale = np.linalg.norm(other - one) * (self._learner.mechanisms()[0].scale or 1.0)
        return lambda seen: (seen - (one + other) / 2) @ (other - one) / scale


def extremes(system: Any) -> Pair:
    """The most different patients that we know of: after a high start the sensor jumps out of all bounds, up or down."""
    states, nothing = (
        np.zeros((2, system.horizon + 1, len(system.A))),
        np.zeros((2, system.horizon, len(system.R))),
    )
    states[:, 0, 0], states[:, 1, 0] = 1.0, (1e3, -1e3)
    two = Trajectories(states, nothing, np.zeros((2, system.horizon)))
    return two[:1], two[1:]


def ordinary(system: Any) -> Pair:
    nothing = LinearPolicy(np.zeros((system.horizon, len(system.R), len(system.A))))
    two = system.sample(nothing, 2, np.random.default_rng(2))
    return two[:1], two[1:]


def attack(name: str, attacked: Eavesdropper, runs: int, shown: int) -> tuple[Audit, list[Array]]:
    """The audit's bound, and the scores of some more attacks, for a picture and for the share of right guesses."""
    found = refute(attacked, delta=DELTA, runs=runs, rng=np.random.default_rng(0))
    score, rng = attacked.score(), np.random.default_rng(1)
    scores = [score(attacked.observe(world, shown, rng)) for world in (0, 1)]
    right = 100 * ((scores[0] < 0).mean() + (scores[1] > 0).mean()) / 2
    shift = scores[1].mean() - scores[0].mean()
    print(
        f"  {name}, {runs:,} runs in each world: guesses right {right:.1f} %, mean shift {shift:.3f};\n    {tell(found)}"
    )
    return found, scores


def tell(found: Audit) -> str:
    shown = f"claimed epsilon {found.epsilon:.3g} at delta {found.delta:g}, shown {found.epsilon_lower:.2f}"
    shown += f" (odds x {np.exp(found.epsilon_lower):.2f})"
    if found.mu is not None:
        epsilon = implied(found)
        shown += f"; claimed mu {found.mu:.3f}, shown {found.mu_lower:.3f} (epsilon {epsilon:.2f}, odds x {np.exp(epsilon):.2f})"
    return f"{shown}; {100 * found.confidence:g} % confidence, {'REFUTED' if found.refuted else 'not refuted'}"


def implied(found: Audit) -> float:
    """Epsilon of Gaussian noise with the separation that was shown."""
    return GaussianDP(found.mu_lower).epsilon_at(found.delta) if found.mu_lower else 0.0


def draw_adversary(scores: list[Array], plain: list[Array], audits: dict[str, Audit]) -> Figure:
    figure, (top, middle, bottom) = panels((2.2, 3.4, 1.9))
    edges = np.linspace(-4, 4, 54)
    for each, colour, dash, name in zip(
        scores, (BLUE, ORANGE), ("solid", "dash"), ("X jumps up", "X jumps down"), strict=True
    ):
        count = np.histogram(each, edges)[0] / len(each)
        top.stairs(count, edges, fill=True, color=colour, alpha=0.16)
        top.stairs(count, edges, color=colour, linestyle=DASHES[dash], linewidth=1.5, label=name)
    top.set(
        xlabel="adversary's test (1 = deviation of the noise)",
        ylabel="share of runs",
        ylim=(0, 0.08),
        xlim=(-4, 4),
    )
    top.legend(frameon=False, fontsize=SMALL, loc="upper center", ncols=2)
    alarm = np.linspace(0, 1, 400)
    most = np.minimum(np.exp(1.0) * alarm + DELTA, 1 - np.exp(-1.0) * (1 - DELTA - alarm))
    middle.fill_between(
        alarm, most, 1, color=GREY, alpha=0.18, linewidth=0, label="ruled out by epsilon = 1"
    )
    for name, worlds, colour, dash in (
        ("no privacy", plain, PURPLE, "dash"),
        ("epsilon = 1, measured", scores, BLUE, "solid"),
    ):
        cuts = np.r_[np.inf, np.quantile(np.concatenate(worlds), np.linspace(1, 0, 200)), -np.inf]
        false, right = ([(each > cut).mean() for cut in cuts] for each in worlds)
        middle.plot(
            false,
            right,
            color=colour,
            linestyle=DASHES[dash],
            linewidth=1.7,
            label=name,
            clip_on=False,
        )
    middle.plot(
        [0, 1], [0, 1], color=GREY, linestyle=DASHES["dot"], linewidth=1.2, label="guessing"
    )
    middle.set(
        xlabel="false alarms", ylabel="right alarms", xlim=(0, 1), ylim=(0, 1), aspect="equal"
    )
    middle.legend(frameon=False, fontsize=SMALL, loc="lower right", handlelength=1.4)
    rows, colours = (
        range(len(audits)),
        [ORANGE if found.refuted else BLUE for found in audits.values()],
    )
    for marker, label, of in (
        ("o", "by a single test", lambda found: found.epsilon_lower),
        ("D", "by the shift", implied),
    ):
        bottom.scatter(
            [of(found) for found in audits.values()],
            rows,
            color=colours,
            marker=marker,
            s=36,
            zorder=3,
        )
        bottom.scatter([], [], color=GREY, marker=marker, s=36, label=label)
    bottom.axvline(1.0, color=GREY, linestyle=DASHES["dash"], linewidth=1.5, label="claimed")
    bottom.set(
        yticks=rows,
        yticklabels=list(audits),
        xlabel="epsilon, at least",
        xlim=(0, 1.3),
        ylim=(len(audits) - 0.5, -0.5),
    )
    figure.legend(
        *bottom.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=SMALL,
    )
    return figure


# Pictures


def panels(heights: tuple[float, ...], *, share_x: bool = False) -> tuple[Figure, list[Axes]]:
    """Panels below each other, as wide as a phone."""
    figure = Figure(figsize=(4.6, sum(heights) + 0.4), layout="constrained", facecolor="white")
    axes = list(figure.subplots(len(heights), 1, sharex=share_x, height_ratios=heights))
    for ax in axes:
        ax.grid(visible=True, color="#e5e7eb", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color("#9ca3af")
        ax.tick_params(
            which="both", labelsize=SMALL, color="#9ca3af", labelcolor="#374151", width=0.6
        )
        for label in (ax.xaxis.label, ax.yaxis.label):
            label.set_size(TEXT)
    return figure, axes


def band(ax: Axes, curves: Array, colour: str, dash: str, name: str) -> None:
    steps = np.arange(1, curves.shape[1] + 1)
    ax.fill_between(
        steps, *np.quantile(curves, [0.1, 0.9], axis=0), color=colour, alpha=0.14, linewidth=0
    )
    ax.plot(
        steps, curves.mean(axis=0), color=colour, linestyle=DASHES[dash], linewidth=1.7, label=name
    )


def save(figure: Figure, path: Path) -> None:
    with matplotlib.rc_context({"svg.hashsalt": "confide"}):  # the same numbers, the same file
        figure.savefig(path, metadata={"Date": None})


def main(effort: Effort, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    system, seeds = confide.problems.glucose(), range(effort.seeds)
    runs = {
        name: [served(system, privacy, effort.patients, seed) for seed in seeds]
        for name, privacy in PROMISES.items()
    }
    first = runs["epsilon = 1"][0]
    checked = verify(first.certificate)
    print(
        f"{first.guarantee}; recomputed from the certificate: epsilon {checked.epsilon:.3f} at delta {checked.delta:g}"
    )
    nothing = LinearPolicy(np.zeros_like(first.policy.gains))
    policies = {
        "without control": nothing,
        "private control": first.policy,
        "optimum": system.optimal_policy,
    }
    loops = closed_loops(system, policies, effort.draws)
    save(draw_patient(loops), folder / "patient.svg")
    tell_patient(system, first, loops)
    save(draw_learning(system, runs), folder / "learning.svg")
    tell_learning(system, runs, effort)
    tell_limits(system, effort)

    print("\nThe adversary")
    worst, usual = (
        (system, OURS, effort.patients, extremes(system)),
        (system, OURS, effort.patients, ordinary(system)),
    )
    honest, scores = attack("worst case", Eavesdropper(*worst), effort.attacks, effort.shown)
    normal, _ = attack("two ordinary patients", Eavesdropper(*usual), effort.attacks, effort.shown)
    broken, _ = attack(
        "worst case, noise 20 % too small",
        Eavesdropper(*worst, "noise"),
        effort.attacks,
        effort.shown,
    )
    bare = Eavesdropper(system, confide.NoPrivacy(), effort.patients, ordinary(system))
    _, plain = attack("two ordinary patients, no privacy", bare, effort.plain, effort.plain)
    audits = {"worst case": honest, "ordinary": normal, "broken twin": broken}
    save(draw_adversary(scores, plain, audits), folder / "adversary.svg")
    known = subject("certainty-equivalent-lq", confide.CentralDP(1.0, 1e-2))
    whole = refute(known, delta=1e-2, runs=effort.whole, rng=np.random.default_rng(0))
    print(
        f"  confide audit certainty-equivalent-lq, {effort.whole:,} runs in each world:\n    {tell(whole)}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer users and seeds; takes seconds")
    parser.add_argument("--out", type=Path, default=Path("glucose"), help="folder for the figures")
    options = parser.parse_args()
    main(QUICK if options.quick else Effort(), options.out)
