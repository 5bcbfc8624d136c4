"""Private insulin dosing for many patients: its benefit, its cost, and an attack on one patient.

    python examples/glucose.py [--quick] [--out docs/glucose]

The attack shows what an adversary who knows all other patients can learn about one patient. The
script draws patient.svg, learning.svg and adversary.svg, and prints every number of
docs/agents/insulin_dosing.md. Seeds are fixed. It takes some minutes.
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
REQUESTS = {
    f"epsilon = {epsilon:g}": confide.JointDP(epsilon, DELTA) for epsilon in (0.5, 1.0, 5.0)
}
REQUESTS |= {"no privacy": confide.NoPrivacy()}
PRIVACY = REQUESTS["epsilon = 1"]
GREY = NEUTRAL[0]
BLUE, ORANGE, GREEN, PURPLE = LIGHT[:4]
COLPRIVACY = dict(zip(REQUESTS, (ORANGE, BLUE, GREEN, PURPLE), strict=True))
DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (4.5, 2)), "dot": (0, (1, 1.8))}
# Sizes of type in points.
TEXT = 10.5
SMALL = 9.5


@dataclass(frozen=True)
class Effort:
    """The size of the computation."""

    patients: int = 20_000
    # Other numbers of patients, for comparison.
    other_sizes: tuple[int, ...] = (10_000, 100_000)
    # The number of patients for epsilon = 0.5, as in benchmarks/results/control.md.
    many_patients: int = 100_000
    seeds: int = 20
    # Draws of the noise around one patient.
    draws: int = 2_000
    attacks: int = 300_000
    # Attacks in the figure.
    drawn_attacks: int = 100_000
    # Attacks on an agent from end to end.
    whole_attacks: int = 10_000
    # Attacks without privacy.
    plain_attacks: int = 3_000


QUICK = Effort(6_000, (), 6_000, 1, 200, 1_000, 500, 100, 100)


def treat_patients(
    system: Any, privacy: Any, patients: int, seed: int, agent_class: Any = CertaintyEquivalentLQ
) -> confide.Run:
    agent = agent_class(system.public, episodes=patients, privacy=privacy)
    return confide.run(agent, system, seed=seed)


def relative_regret(run: confide.Run) -> float:
    """Return the regret of a whole run, divided by that of doing nothing.

    0 is the optimum, and 1 is as good as doing nothing. More than 1 does harm.
    """
    return float(run.regret[-1] / (run.episodes * (run.optimal_value - run.uniform_value)))


def repaid(run: confide.Run) -> int:
    """Return after how many patients the cost of exploring is repaid for good.

    From then on, all patients together have cost no more than if nobody had been treated. If this
    never happens, the number is larger than that of all patients.
    """
    users = np.array([segment.users for segment in run.segments])
    # Values are minus costs.
    extra_costs = np.array([run.uniform_value - segment.value for segment in run.segments])
    debt = np.cumsum(users * extra_costs)
    segment_ends = np.cumsum(users)
    last_in_debt = int(np.flatnonzero(debt > 0).max(initial=-1))
    if last_in_debt < 0:
        return 0
    if last_in_debt + 1 == len(users):
        return run.episodes + 1
    patients_to_repay = -debt[last_in_debt] / extra_costs[last_in_debt + 1]
    return int(np.ceil(segment_ends[last_in_debt] + patients_to_repay))


# One patient


def closed_loops(
    system: Any, policies: dict[str, LinearPolicy], draws: int
) -> dict[str, tuple[Array, Array]]:
    """Return glucose [draw, step] and insulin [draw, step] of one patient under each policy.

    All policies meet the same noise.
    """
    rng = np.random.default_rng(0)
    dimension = len(system.A)
    horizon = system.horizon
    # The noise is uniform in a ball.
    noise = rng.normal(size=(draws, horizon, dimension))
    noise *= (
        system.noise_radius
        * rng.uniform(size=(draws, horizon, 1)) ** (1 / dimension)
        / np.linalg.norm(noise, axis=2, keepdims=True)
    )
    loops = {}
    for name, policy in policies.items():
        # Glucose starts above its target, and insulin acts less than it should.
        state = np.tile([0.8, -0.6, 0.0], (draws, 1))
        glucose = [state[:, 0]]
        insulin = []
        for h in range(horizon):
            dose = state @ policy.gains[h].T
            state = state @ system.A.T + dose @ system.B.T + noise[:, h]
            glucose.append(state[:, 0])
            insulin.append(dose[:, 0])
        loops[name] = (np.stack(glucose, axis=1), np.stack(insulin, axis=1))
    return loops


def draw_patient(loops: dict[str, tuple[Array, Array]]) -> Figure:
    figure, (top, middle, bottom) = panels((2.5, 1.9, 1.9), share_x=True)
    glucose_without, _ = loops["without control"]
    for (name, (glucose, insulin)), colour, dash in zip(
        loops.items(), (GREY, BLUE, GREEN), ("dot", "solid", "dash"), strict=True
    ):
        band(top, glucose, colour, dash, name)
        if name != "without control":
            band(middle, glucose - glucose_without, colour, dash, name)
            band(bottom, insulin, colour, dash, name)
    top.set_ylabel("glucose")
    middle.set_ylabel("glucose: change\nby control")
    bottom.set(ylabel="insulin given", xlabel="step")
    top.legend(frameon=False, fontsize=SMALL)
    top.set_title("One patient, deviations; means and 80 % bands", fontsize=TEXT)
    return figure


def print_patient(system: Any, run: confide.Run, loops: dict[str, tuple[Array, Array]]) -> None:
    saved = 100 * (1 - system.optimal_value / system.uniform_value)
    print(
        f"\nOne patient; cost: doing nothing {-system.uniform_value:.4f}, "
        f"optimum {-system.optimal_value:.4f}, {saved:.2f} % less"
    )
    print(f"  private, seed 0: the last policy costs {system.cost(run.policy):.4f}")
    for name, (glucose, insulin) in loops.items():
        mean_squares = (glucose[:, :-1] ** 2).sum(axis=1).mean()
        print(
            f"  {name}: glucose {glucose[:, 5].mean():.3f} at step 6, "
            f"squares add up to {mean_squares:.3f}; first dose {insulin[:, 0].mean():.2f}"
        )


# Many patients


def print_learning(system: Any, runs: dict[str, list[confide.Run]], effort: Effort) -> None:
    print(f"\nMany patients: regret / that of doing nothing, {effort.seeds} seeds")
    for name, runs_of_request in runs.items():
        print(f"  {name}, {effort.patients:,} patients: {spread(runs_of_request)}")
    for patients in (least_patients(system, PRIVACY), *effort.other_sizes):
        seeds = range(effort.seeds)
        other_runs = [treat_patients(system, PRIVACY, patients, seed) for seed in seeds]
        print(f"  epsilon = 1, {patients:,} patients: {spread(other_runs)}")
    for name, privacy in REQUESTS.items():
        print(f"  {name}: no exploration below {least_patients(system, privacy):,} patients")
    agent = CertaintyEquivalentLQ(system.public, episodes=effort.patients, privacy=PRIVACY)
    first_release, second_release = agent.schedule.times[:2]
    print(
        f"  epsilon = 1: the first {first_release} patients get no input, "
        f"the next {second_release - first_release} explore"
    )
    first = runs["epsilon = 1"][0]
    costs = [(segment.users, -segment.value) for segment in first.segments]
    harmed_patients = sum(users for users, cost in costs if cost > -system.uniform_value)
    highest_cost = max(cost for _, cost in costs)
    increase = 100 * (highest_cost / -system.uniform_value - 1)
    regret = first.regret[-1]
    share = relative_regret(first)
    print(
        f"  seed 0: regret {regret:.0f} of {regret / share:.0f}, {share:.2f}; "
        f"{harmed_patients:,} patients cost more than doing nothing, "
        f"up to {highest_cost:.4f}, {increase:.0f} % more"
    )


def print_limits(system: Any, effort: Effort) -> None:
    print("\nLimits: regret / that of doing nothing")
    seeds = range(effort.seeds)
    runs = [treat_patients(system, PRIVACY, effort.patients, seed, OFULQ) for seed in seeds]
    print(f"  ofu-lq, epsilon = 1, {effort.patients:,} patients: {spread(runs)}")
    privacy = REQUESTS["epsilon = 0.5"]
    patients = effort.many_patients
    for agent_class in (CertaintyEquivalentLQ, ThompsonLQ):
        runs = [treat_patients(system, privacy, patients, seed, agent_class) for seed in seeds[:10]]
        print(f"  {agent_class.name}, epsilon = 0.5, {patients:,} patients: {spread(runs)}")


def spread(runs: list[confide.Run]) -> str:
    """Describe the relative regrets of some runs, and when their exploration was repaid."""
    episodes = runs[0].episodes
    regrets = [relative_regret(run) for run in runs]
    repaid_after = [repaid(run) for run in runs]
    median, most = (
        f"after {patients:,.0f}" if patients <= episodes else "never"
        for patients in (np.median(repaid_after), max(repaid_after))
    )
    never_repaid = sum(patients > episodes for patients in repaid_after)
    return (
        f"mean {np.mean(regrets):.2f}, median {np.median(regrets):.2f}, most {max(regrets):.2f}; "
        f"repaid {median} (median), {most} (most); never in {never_repaid} of {len(runs)}"
    )


def least_patients(system: Any, privacy: Any) -> int:
    """Return the fewest patients with whom the agent explores.

    With fewer, its schedule has a single release, and the agent does nothing.
    """
    low = 1
    high = 2**20
    while low < high:
        middle = (low + high) // 2
        agent = CertaintyEquivalentLQ(system.public, episodes=middle, privacy=privacy)
        if agent.schedule.leaves > 1:
            high = middle
        else:
            low = middle + 1
    return low


def draw_learning(system: Any, runs: dict[str, list[confide.Run]]) -> Figure:
    figure, (top, bottom) = panels((2.7, 2.7), share_x=True)
    best = -system.optimal_value
    for name, runs_of_request in runs.items():
        checkpoints = runs_of_request[0].checkpoints
        look = {
            "color": COLPRIVACY[name],
            "linestyle": DASHES["dash" if name == "no privacy" else "solid"],
            "linewidth": 1.6,
        }
        extra_costs = np.median([-run.value - best for run in runs_of_request], axis=0)
        top.plot(checkpoints, 100 * extra_costs / best, drawstyle="steps-post", label=name, **look)
        mean_so_far = np.mean([run.regret / run.checkpoints for run in runs_of_request], axis=0)
        bottom.plot(checkpoints, 100 * mean_so_far / best, **look)
    for ax in (top, bottom):
        doing_nothing = 100 * (-system.uniform_value - best) / best
        ax.axhline(
            doing_nothing,
            color=GREY,
            linestyle=DASHES["dot"],
            linewidth=1.6,
            label="doing nothing" if ax is top else None,
        )
        ax.set(xscale="log", yscale="log", xlim=(10, runs_of_request[0].episodes))
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    top.set_ylabel("this patient, median")
    bottom.set(ylabel="all so far, mean", xlabel="patients")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=SMALL)
    top.set_title(f"Cost above the optimum, in %, {len(runs_of_request)} seeds", fontsize=TEXT)
    return figure


# The adversary


@dataclass(frozen=True)
class Eavesdropper:
    """An adversary who has the records of all patients but X, and reads one release.

    X is one of two patients, and is in the first batch, whose release is read. Later releases
    depend on X only through this one, so they would add nothing.
    """

    system: Any
    privacy: Any
    patients: int
    pair: Pair
    # A broken variant of the noise source, or None for the honest one.
    twin: str | None = None

    @property
    def loss(self) -> Loss:
        return loss_for(self.privacy)

    @cached_property
    def _agent(self) -> CertaintyEquivalentLQ:
        # The patients are simulated, and an attack needs many fast draws.
        noise = FastSource(np.random.default_rng(0))
        agent = CertaintyEquivalentLQ(
            self.system.public, episodes=self.patients, privacy=self.privacy, noise=noise
        )
        # This opens the first batch, which the attack is on.
        agent.next_batch()
        return agent

    @cached_property
    def leaves(self) -> Pair:
        """All patients of the batch, with either of the two patients as X."""
        batch = self._agent.next_batch()
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
        """Return the values that were released in so many runs: [run, number]."""
        agent = self._agent
        source = make_source("fast", self.twin, rng)
        counter = None
        if not isinstance(self.privacy, confide.NoPrivacy):
            counter = Leaves(agent.schedule.leaves)
        contribution = agent.contribution(self.leaves[world])
        released_values = []
        for _ in range(runs):
            privatizer = CentralPrivatizer(
                agent.algorithm.bound,
                agent.schedule,
                privacy=self.privacy,
                noise=source,
                counter=counter,
            )
            privatizer.absorb(contribution)
            released_values.append(privatizer.release().values)
        return np.stack(released_values)

    def score(self) -> Any:
        """Return the test of the adversary, a function of a release.

        It is the distance of the release from the middle between the two exact contributions, in
        standard deviations of the noise. For Gaussian noise no test is better.
        """
        one, other = (self._agent.contribution(batch).values for batch in self.leaves)
        scale = np.linalg.norm(other - one) * (self._agent.mechanisms()[0].scale or 1.0)
        return lambda released: (released - (one + other) / 2) @ (other - one) / scale


def extremes(system: Any) -> Pair:
    """Return the two most different patients that we could find.

    After a high start, the sensor jumps out of all bounds: up for one, and down for the other.
    """
    states = np.zeros((2, system.horizon + 1, len(system.A)))
    no_input = np.zeros((2, system.horizon, len(system.R)))
    states[:, 0, 0] = 1.0
    states[:, 1, 0] = (1e3, -1e3)
    two_patients = Trajectories(states, no_input, np.zeros((2, system.horizon)))
    return two_patients[:1], two_patients[1:]


def ordinary(system: Any) -> Pair:
    """Return two patients who are drawn at random and get no input."""
    no_input = LinearPolicy(np.zeros((system.horizon, len(system.R), len(system.A))))
    two_patients = system.sample(no_input, 2, np.random.default_rng(2))
    return two_patients[:1], two_patients[1:]


def attack(
    name: str, adversary: Eavesdropper, runs: int, extra_runs: int
) -> tuple[Audit, list[Array]]:
    """Return the audit, and the scores of some more attacks.

    The scores are for the figure and for the share of right guesses.
    """
    audit = refute(adversary, delta=DELTA, runs=runs, rng=np.random.default_rng(0))
    score = adversary.score()
    rng = np.random.default_rng(1)
    scores = [score(adversary.observe(world, extra_runs, rng)) for world in (0, 1)]
    right = 100 * ((scores[0] < 0).mean() + (scores[1] > 0).mean()) / 2
    shift = scores[1].mean() - scores[0].mean()
    print(
        f"  {name}, {runs:,} runs for each of the two patients: guesses right {right:.1f} %, "
        f"mean shift {shift:.3f};\n    {describe_audit(audit)}"
    )
    return audit, scores


def describe_audit(audit: Audit) -> str:
    parts = [
        f"claimed epsilon {audit.epsilon:.3g} at delta {audit.delta:g}, "
        f"shown {audit.epsilon_lower:.2f} (odds x {np.exp(audit.epsilon_lower):.2f})"
    ]
    if audit.mu is not None:
        epsilon = implied_epsilon(audit)
        parts.append(
            f"claimed mu {audit.mu:.3f}, shown {audit.mu_lower:.3f} "
            f"(epsilon {epsilon:.2f}, odds x {np.exp(epsilon):.2f})"
        )
    verdict = "REFUTED" if audit.refuted else "not refuted"
    parts.append(f"{100 * audit.confidence:g} % confidence, {verdict}")
    return "; ".join(parts)


def implied_epsilon(audit: Audit) -> float:
    """Return the epsilon of Gaussian noise with the separation that the audit has shown."""
    return GaussianDP(audit.mu_lower).epsilon_at(audit.delta) if audit.mu_lower else 0.0


def draw_adversary(
    scores: list[Array], plain_scores: list[Array], audits: dict[str, Audit]
) -> Figure:
    figure, (top, middle, bottom) = panels((2.2, 3.4, 1.9))
    edges = np.linspace(-4, 4, 54)
    for scores_of_patient, colour, dash, name in zip(
        scores, (BLUE, ORANGE), ("solid", "dash"), ("X jumps up", "X jumps down"), strict=True
    ):
        shares = np.histogram(scores_of_patient, edges)[0] / len(scores_of_patient)
        top.stairs(shares, edges, fill=True, color=colour, alpha=0.16)
        top.stairs(shares, edges, color=colour, linestyle=DASHES[dash], linewidth=1.5, label=name)
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
    for name, both_scores, colour, dash in (
        ("no privacy", plain_scores, PURPLE, "dash"),
        ("epsilon = 1, measured", scores, BLUE, "solid"),
    ):
        quantiles = np.quantile(np.concatenate(both_scores), np.linspace(1, 0, 200))
        cuts = np.r_[np.inf, quantiles, -np.inf]
        false_alarms, right_alarms = (
            [(scores_of_patient > cut).mean() for cut in cuts] for scores_of_patient in both_scores
        )
        middle.plot(
            false_alarms,
            right_alarms,
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
    rows = range(len(audits))
    colours = [ORANGE if audit.refuted else BLUE for audit in audits.values()]
    for marker, label, epsilon_of in (
        ("o", "by a single test", lambda audit: audit.epsilon_lower),
        ("D", "by the shift", implied_epsilon),
    ):
        bottom.scatter(
            [epsilon_of(audit) for audit in audits.values()],
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
    """Return a figure with panels below each other, as wide as a phone."""
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
    # With a fixed salt and no date, the same numbers give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "confide"}):
        figure.savefig(path, metadata={"Date": None})


def main(effort: Effort, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    system = confide.problems.glucose()
    seeds = range(effort.seeds)
    runs = {
        name: [treat_patients(system, privacy, effort.patients, seed) for seed in seeds]
        for name, privacy in REQUESTS.items()
    }
    first = runs["epsilon = 1"][0]
    recomputed = verify(first.certificate)
    print(
        f"{first.guarantee}; recomputed from the certificate: "
        f"epsilon {recomputed.epsilon:.3f} at delta {recomputed.delta:g}"
    )
    no_input = LinearPolicy(np.zeros_like(first.policy.gains))
    policies = {
        "without control": no_input,
        "private control": first.policy,
        "optimum": system.optimal_policy,
    }
    loops = closed_loops(system, policies, effort.draws)
    save(draw_patient(loops), folder / "patient.svg")
    print_patient(system, first, loops)
    save(draw_learning(system, runs), folder / "learning.svg")
    print_learning(system, runs, effort)
    print_limits(system, effort)
    attack_patients(system, effort, folder)


def attack_patients(system: Any, effort: Effort, folder: Path) -> None:
    print("\nThe adversary")
    extreme_pair = extremes(system)
    ordinary_pair = ordinary(system)
    patients = effort.patients
    worst_case = Eavesdropper(system, PRIVACY, patients, extreme_pair)
    ordinary_case = Eavesdropper(system, PRIVACY, patients, ordinary_pair)
    broken_case = Eavesdropper(system, PRIVACY, patients, extreme_pair, "noise")
    plain_case = Eavesdropper(system, confide.NoPrivacy(), patients, ordinary_pair)

    runs = (effort.attacks, effort.drawn_attacks)
    worst_audit, scores = attack("worst case", worst_case, *runs)
    ordinary_audit, _ = attack("two ordinary patients", ordinary_case, *runs)
    broken_audit, _ = attack("worst case, noise 20 % too small", broken_case, *runs)
    plain_runs = (effort.plain_attacks, effort.plain_attacks)
    _, plain_scores = attack("two ordinary patients, no privacy", plain_case, *plain_runs)
    audits = {"worst case": worst_audit, "ordinary": ordinary_audit, "broken twin": broken_audit}
    save(draw_adversary(scores, plain_scores, audits), folder / "adversary.svg")

    whole_agent = subject("certainty-equivalent-lq", confide.CentralDP(1.0, 1e-2))
    rng = np.random.default_rng(0)
    audit = refute(whole_agent, delta=1e-2, runs=effort.whole_attacks, rng=rng)
    print(
        f"  confide audit certainty-equivalent-lq, {effort.whole_attacks:,} runs for each of the "
        f"two patients:\n    {describe_audit(audit)}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer users and seeds; takes seconds")
    parser.add_argument("--out", type=Path, default=Path("glucose"), help="folder for the figures")
    options = parser.parse_args()
    main(QUICK if options.quick else Effort(), options.out)
