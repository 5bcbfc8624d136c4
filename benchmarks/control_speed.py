"""Private control in confide beside the same programs in NumPy and SciPy.

    python benchmarks/control_speed.py [--rounds 3] [--write]

Both run in one process and in interleaved rounds. The plain agent does what confide's does, so that
their regret is alike: clips, noises, widths, starts of the search, times of release, exact regret.
Only what is known before the data (caps, weights, times) it takes from confide. It searches by
SLSQP with the exact gradient, or with SciPy's differences. Machines are noisy: ratios are what
counts.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from record import record
from scipy.optimize import minimize
from scipy.signal import fftconvolve

from confide.agents import OFULQ, CertaintyEquivalentLQ
from confide.privacy.accounting import gaussian_mu
from confide.privacy.request import JointDP, LocalDP, Relation
from confide.privatizers import every_episode
from confide.problems import make
from confide.runs.runner import prepare, run
from confide.trajectory import Trajectories

DELTA = 1e-5
# users of learners that replan after each, at their own times, from messages
EACH = 20_000
LAZY = 100_000
DEVICES = 20_000
# How much of the plain program is written as arrays.
PLAIN = {
    "step": "NumPy, step by step",
    "episode": "NumPy, an episode's draws and sums as arrays",
    "release": "NumPy, all users of a release as arrays",
}


class PlainSystem:
    """A linear system and its users.

    `way` is how much is written as arrays: a "step", an "episode", or all users of a "release".
    """

    def __init__(self, problem, times, *, seed: int, way: str) -> None:
        self.A = problem.A
        self.B = problem.B
        self.Q = problem.Q
        self.R = problem.R
        self.H = problem.horizon
        self.n = len(self.A)
        self.d = len(self.R)
        self.radius = problem.noise_radius
        self.times = times
        self.way = way
        self.p = self.n + self.d
        self.shock = problem.noise_radius**2 / (self.n + 2)
        self.I = np.eye(self.n)
        self.optimum = -problem.optimal_value
        self.longest = problem.gain_bound
        self.bound = problem.parameter_bound
        self.both = np.zeros((self.p, self.p))
        self.both[: self.n, : self.n], self.both[self.n :, self.n :] = self.Q, self.R
        self.rng = np.random.default_rng(seed)
        self.regret = 0.0
        self.served = 0
        self.S = np.zeros((self.p, self.p))
        self.C = np.zeros((self.p, self.n))

    def serve(self, gains: np.ndarray, users: int) -> None:
        """So many users, written in one of three ways."""
        self.charge(gains, users)
        self.served += users
        if self.way == "release":
            self.observe_all(*self.play_all(gains, users))
            return
        for _ in range(users):
            if self.way == "step":
                self.watch(self.steps(gains))
            else:
                self.observe(*self.play(gains))

    def steps(self, gains: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """z = (x, u) [p] and the next state [n], one step after the other."""
        x = self.direction()
        for K in gains:
            u = K @ x
            after = (
                self.A @ x
                + self.B @ u
                + self.radius * self.rng.random() ** (1 / self.n) * self.direction()
            )
            yield np.concatenate([x, u]), after
            x = after

    def direction(self) -> np.ndarray:
        v = self.rng.standard_normal(self.n)
        return v / np.linalg.norm(v)

    def play(self, gains: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One user's z [h, p] and next states [h, n], drawn before the first step."""
        X = self.draws(())
        U = np.empty((self.H, self.d))
        for h in range(self.H):
            U[h] = gains[h] @ X[h]
            X[h + 1] += self.A @ X[h] + self.B @ U[h]
        return np.concatenate([X[:-1], U], axis=1), X[1:]

    def play_all(self, gains: np.ndarray, users: int) -> tuple[np.ndarray, np.ndarray]:
        """The same of many users at once [user, h, .]."""
        X = self.draws((users,))
        U = np.empty((users, self.H, self.d))
        for h in range(self.H):
            U[:, h] = X[:, h] @ gains[h].T
            X[:, h + 1] += X[:, h] @ self.A.T + U[:, h] @ self.B.T
        return np.concatenate([X[:, :-1], U], axis=2), X[:, 1:]

    def draws(self, shape: tuple[int, ...]) -> np.ndarray:
        """x_1 on the sphere, and w_1, ..., w_H in the ball."""
        X = self.rng.standard_normal((*shape, self.H + 1, self.n))
        X /= np.sqrt((X * X).sum(axis=-1))[..., None]
        X[..., 1:, :] *= (self.radius * self.rng.random((*shape, self.H)) ** (1 / self.n))[
            ..., None
        ]
        return X

    def charge(self, gains: np.ndarray, users: int) -> None:
        """The exact regret of so many users."""
        P = np.zeros((self.n, self.n))
        cost = 0.0
        for K in gains[::-1]:
            cost += self.shock * np.trace(P)
            closed = self.A + self.B @ K
            P = self.Q + K.T @ self.R @ K + closed.T @ P @ closed
        self.regret += users * (cost + np.trace(P) / self.n - self.optimum)

    def project_gains(self, gains: np.ndarray) -> np.ndarray:
        sizes = np.linalg.norm(gains, 2, axis=(1, 2))
        return gains * np.minimum(1, self.longest / np.maximum(sizes, 1e-300))[:, None, None]

    def symmetric(self, entries: np.ndarray) -> np.ndarray:
        """Return the symmetric matrix of p (p + 1) / 2 numbers of variance 1.

        Its entries have variance 1 on the diagonal and 1/2 off it.
        """
        N = np.zeros((self.p, self.p))
        N[np.triu_indices(self.p)] = entries / math.sqrt(2)
        return N + N.T - np.diag(N.diagonal() * (2 - math.sqrt(2)))


class PlainOFU(PlainSystem):
    """Private-OFU-RL in NumPy and SciPy.

    The correlated noise of the square root is drawn before the first user. The search is by SLSQP
    from two starts.
    """

    def __init__(
        self,
        problem,
        times,
        privacy,
        *,
        seed: int = 0,
        way: str = "step",
        exact_gradient: bool = True,
    ) -> None:
        super().__init__(problem, times, seed=seed, way=way)
        rows = OFULQ(problem.public, episodes=times[-1], privacy=privacy).algorithm.bound
        self.cap = rows.cap
        self.s = rows.weight
        self.failure = 0.1
        self.exact = exact_gradient
        self.searched = 0
        j = np.arange(1, len(times))
        root = np.concatenate([[1.0], np.cumprod((2 * j - 1) / (2 * j))])
        sizes = np.sqrt(np.cumsum(root**2))
        scale = (
            rows.sensitivity(Relation.REPLACE)
            * sizes[-1]
            / gaussian_mu(privacy.epsilon, privacy.delta)
        )
        unit = self.rng.standard_normal((len(times), rows.size))
        self.noise = scale * fftconvolve(unit, root[:, None], axes=0)[: len(times)]
        self.stds = scale * sizes

    def run(self, users: int) -> "PlainOFU":
        for t, end in enumerate(self.times):
            if self.served >= users:
                break
            self.serve(self.plan(t), end - self.served)
        return self

    def watch(self, steps: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
        left = self.cap
        s2 = self.s**2
        for z, x in steps:
            size = z @ z
            reach = np.linalg.norm(x)
            longest = self.bound * np.linalg.norm(z) + self.radius
            after = x * min(1.0, longest / reach)
            c = min(1.0, left / (size + s2 * longest**2))
            left = max(left - c * (size + s2 * (after @ after)), 0.0)
            self.S += c * np.outer(z, z)
            self.C += c * np.outer(z, after)

    def observe(self, Z: np.ndarray, X: np.ndarray) -> None:
        """`watch`, with the sums as products of matrices."""
        left = self.cap
        weights = []
        s2 = self.s**2
        sizes = (Z * Z).sum(axis=1)
        reaches = (X * X).sum(axis=1)
        longest = (self.bound * np.sqrt(sizes) + self.radius) ** 2
        if (reaches > longest).any():
            X = X * np.sqrt(np.minimum(1, longest / reaches))[:, None]
        for size, most, reach in zip(
            sizes.tolist(), longest.tolist(), np.minimum(reaches, longest).tolist(), strict=True
        ):
            weights.append(min(1.0, left / (size + s2 * most)))
            left = max(left - weights[-1] * (size + s2 * reach), 0.0)
        weighted = (Z * np.array(weights)[:, None]).T
        self.S += weighted @ Z
        self.C += weighted @ X

    def observe_all(self, Z: np.ndarray, X: np.ndarray) -> None:
        """`observe`, of many users at once [user, h, .]."""
        sizes = (Z * Z).sum(axis=2)
        reaches = (X * X).sum(axis=2)
        s2 = self.s**2
        longest = (self.bound * np.sqrt(sizes) + self.radius) ** 2
        X, reaches = (
            X * np.sqrt(np.minimum(1, longest / reaches))[..., None],
            np.minimum(reaches, longest),
        )
        left = np.full(len(Z), self.cap)
        weights = np.empty_like(sizes)
        for h in range(self.H):
            weights[:, h] = np.minimum(1, left / (sizes[:, h] + s2 * longest[:, h]))
            left = np.maximum(left - weights[:, h] * (sizes[:, h] + s2 * reaches[:, h]), 0)
        flat = Z.reshape(-1, self.p)
        weighted = (flat * weights.reshape(-1, 1)).T
        self.S += weighted @ flat
        self.C += weighted @ X.reshape(-1, self.n)

    def plan(self, t: int) -> np.ndarray:
        """Gains after t releases, from what was released."""
        p = self.p
        n = self.n
        cut = self.p * (self.p + 1) // 2
        std = 0.0
        S = self.S
        C = self.C
        if t:
            std = self.stds[t - 1]
            noise = self.noise[t - 1]
            S, C = (
                S + self.symmetric(noise[:cut]),
                C + noise[cut:].reshape(p, n) / (math.sqrt(2) * self.s),
            )
        a = std / math.sqrt(2)
        q = self.failure / (4 * len(self.times))
        Lam = 2 * a * (math.sqrt(p) + math.sqrt(math.log(2 / q)))
        ell = a / self.s * (math.sqrt(n * p) + math.sqrt(2 * math.log(1 / q)))
        values, vectors = np.linalg.eigh(S + (Lam + 1) * np.eye(p))
        values = np.maximum(values, 1.0)
        V = (vectors * values) @ vectors.T
        theta = (vectors / values) @ (vectors.T @ C)
        v = values[0]
        more = 2 * Lam + 1
        beta = self.radius * math.sqrt(2 * math.log(4 / self.failure) + n * np.log(values).sum())
        beta += self.bound * min(more / math.sqrt(v), math.sqrt(more)) + ell / math.sqrt(v)
        return self.project_gains(self.riccati(self.search(theta, V, beta))[1])

    def search(self, theta: np.ndarray, V: np.ndarray, beta: float) -> np.ndarray:
        n = self.n
        shape = theta.shape
        memoryless = np.zeros_like(theta)
        memoryless[n:] = theta[n:] + np.linalg.solve(V[n:, n:], V[n:, :n] @ theta[:n])
        memoryless *= min(1.0, self.bound / max(np.linalg.norm(memoryless), 1e-300))
        error = memoryless - theta
        if (error * (V @ error)).sum() <= beta**2:
            # This is the cheapest system of all.
            return memoryless
        self.searched += 1
        L = np.linalg.cholesky(V)
        # Theta = theta + back Y: the ellipsoid is the unit ball of Y
        back = np.linalg.inv(L.T) * beta

        def at(y: np.ndarray) -> np.ndarray:
            return theta + back @ y.reshape(shape)

        def cost(y: np.ndarray):
            J, gradient = self.cost(at(y), gradient=self.exact)
            return (J, (back.T @ gradient).ravel()) if self.exact else J

        limits = (
            {"type": "ineq", "fun": lambda y: 1 - y @ y, "jac": lambda y: -2 * y},
            {
                "type": "ineq",
                "fun": lambda y: self.bound**2 - (at(y) ** 2).sum(),
                "jac": lambda y: -2 * (back.T @ at(y)).ravel(),
            },
        )
        best = theta * min(1.0, self.bound / np.linalg.norm(theta))
        cheapest = math.inf
        for start in (0.01 * np.cos(1 + 2.4 * np.arange(theta.size)), (L.T @ error / beta).ravel()):
            minimum = minimize(
                cost,
                start,
                jac=self.exact or None,
                method="SLSQP",
                constraints=limits,
                options={"ftol": 1e-5},
            )
            inside = minimum.x @ minimum.x < 1 + 1e-4 and np.linalg.norm(
                at(minimum.x)
            ) < self.bound * (1 + 1e-4)
            if inside and minimum.fun < cheapest:
                best = at(minimum.x)
                cheapest = minimum.fun
        return best

    def riccati(self, theta: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        n = self.n
        P = [self.Q]
        gains = np.zeros((self.H, self.d, self.n))
        for h in range(self.H - 2, -1, -1):
            M = self.both + theta @ P[-1] @ theta.T
            gains[h] = -np.linalg.solve(M[n:, n:], M[n:, :n])
            P.append(M[:n, :n] + M[:n, n:] @ gains[h])
        return P[::-1], gains

    def cost(self, theta: np.ndarray, *, gradient: bool) -> tuple[float, np.ndarray]:
        """J, and by the envelope theorem dJ/dTheta = 2 sum_h [I; K_h] S_h A_h^T P_{h+1}."""
        P, gains = self.riccati(theta)
        traces = np.trace(P, axis1=1, axis2=2)
        J = traces[0] / self.n + self.shock * traces[1:].sum()
        total = np.zeros_like(theta)
        S = self.I / self.n
        if gradient:
            for h in range(self.H - 1):
                lift = np.concatenate([self.I, gains[h]])
                closed = theta.T @ lift
                moved = closed @ S
                total += lift @ (moved.T @ P[h + 1])
                S = moved @ closed.T + self.shock * self.I
        return J, 2 * total


@dataclass(frozen=True)
class Subject:
    """One row: so many users are served by `call(seed)`, which returns their regret."""

    name: str
    users: int
    call: Callable[[int], float]
    # Whether the subject runs in one round only, because it is slow.
    once: bool = False


def confide_each(name: str, privacy: JointDP, users: int, seed: int) -> float:
    problem = make(name)
    agent = OFULQ(problem.public, episodes=EACH, privacy=privacy, schedule=every_episode(EACH))
    return float(run(agent, problem, episodes=users, seed=seed).regret[-1])


def plain_each(
    name: str, privacy: JointDP, users: int, shares: list[float], seed: int, *, exact: bool = True
) -> float:
    """`shares` is told what share of the plans was searched for."""
    plain = PlainOFU(
        make(name),
        every_episode(EACH).times,
        privacy,
        seed=seed,
        way="episode",
        exact_gradient=exact,
    ).run(users)
    shares.append(plain.searched / users)
    return plain.regret


def confide_lazy(
    agent_class: type,
    name: str,
    privacy: JointDP | LocalDP,
    users: int,
    seed: int,
    *,
    counts: bool | None = None,
) -> float:
    problem = make(name)
    return float(
        run(
            agent_class(problem.public, episodes=users, privacy=privacy),
            problem,
            seed=seed,
            counts=counts,
        ).regret[-1]
    )


def plain_lazy(name: str, privacy: JointDP, way: str, seed: int) -> float:
    problem = make(name)
    times = OFULQ(problem.public, episodes=LAZY, privacy=privacy).schedule.times
    return PlainOFU(problem, times, privacy, seed=seed, way=way).run(LAZY).regret


def plain_users(name: str, privacy: JointDP, seed: int) -> float:
    """Play the users of certainty equivalence in NumPy, step by step.

    Sums and plans are confide's.
    """
    problem = make(name)
    plain_system = PlainSystem(problem, (), seed=seed, way="step")
    agent = CertaintyEquivalentLQ(problem.public, episodes=LAZY, privacy=privacy)
    prepare(agent, seed)
    while agent.users < LAZY:
        batch = agent.next_batch()
        Z = np.empty((batch.users, plain_system.H, plain_system.p))
        X = np.empty((batch.users, plain_system.H, plain_system.n))
        for i in range(batch.users):
            for h, (z, x) in enumerate(plain_system.steps(batch.policy.gains)):
                Z[i, h], X[i, h] = z, x
        states = np.concatenate([Z[:, :1, : plain_system.n], X], axis=1)
        agent.observe(
            Trajectories(states, Z[:, :, plain_system.n :], np.zeros((batch.users, plain_system.H)))
        )
        plain_system.charge(batch.policy.gains, batch.users)
    return plain_system.regret


def measure_rates(subjects: list[Subject], rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Episodes per CPU-second and regret [round, subject]; subjects take turns."""
    rates = np.full((rounds, len(subjects)), np.nan)
    regrets = np.full((rounds, len(subjects)), np.nan)
    for subject in subjects:
        if subject.name.startswith("confide"):
            # The first call compiles.
            subject.call(0)
    for r in range(rounds):
        for i, subject in enumerate(subjects):
            if r and subject.once:
                continue
            start = time.process_time()
            regrets[r, i] = subject.call(r)
            rates[r, i] = subject.users / (time.process_time() - start)
    return rates, regrets


def table(title: str, subjects: list[Subject], rounds: int) -> tuple[list[str], np.ndarray]:
    """Its lines, and the median of how much faster the first subject is than each."""
    rates, regrets = measure_rates(subjects, rounds)
    over = rates[:, [0]] / rates
    lines = [
        f"| {title} | episodes per CPU-second | speedup of confide: median, range | regret, mean |",
        "|---|---|---|---|",
    ]
    for i, subject in enumerate(subjects):
        finite_ratios = over[np.isfinite(over[:, i]), i]
        middle = (
            f"{np.median(finite_ratios):,.3g}, "
            f"{finite_ratios.min():,.3g} to {finite_ratios.max():,.3g}"
            if i
            else "-"
        )
        lines.append(
            f"| {subject.name} | {np.nanmedian(rates[:, i]):,.0f} | {middle} | "
            f"{np.nanmean(regrets[:, i]):,.0f} |"
        )
    return lines, np.nanmedian(over, axis=0)


def replanning(rounds: int) -> tuple[list[list[str]], list[float]]:
    """After every user: where sets are small enough to be searched, and where they are not yet."""
    sections = []
    over = []
    for name, epsilon, users in (
        ("oscillator", 10.0, 2_000),
        ("oscillator", 1.0, 2_000),
        ("thermal", 10.0, 2_500),
    ):
        privacy = JointDP(epsilon, DELTA)
        shares = []
        numeric = partial(plain_each, name, privacy, users, [], exact=False)
        subjects = [
            Subject("confide", users, partial(confide_each, name, privacy, users)),
            Subject(
                "NumPy and SciPy, exact gradient",
                users,
                partial(plain_each, name, privacy, users, shares),
            ),
            Subject("NumPy and SciPy, gradient by differences", users, numeric, once=True),
        ]
        kept = subjects if (name, epsilon) == ("oscillator", 10.0) else subjects[:2]
        lines, ratios = table(
            f"ofu-lq on {name}, eps = {epsilon:g}, the first {users:,} of {EACH:,} users",
            kept,
            rounds,
        )
        sections.append(
            [
                *lines,
                "",
                (
                    f"{np.mean(shares):.0%} of these plans need a search; "
                    "for the others A = 0 is in the confidence set."
                ),
            ]
        )
        over.append(float(ratios[1]))
    return sections, over


def lazily(rounds: int) -> tuple[list[list[str]], np.ndarray]:
    """At their own times."""
    sections = []
    over = []
    privacy = JointDP(1.0, DELTA)
    for agent_class in (OFULQ, CertaintyEquivalentLQ):
        for name in ("oscillator", "thermal"):
            if agent_class is OFULQ:
                others = [
                    Subject(text, LAZY, partial(plain_lazy, name, privacy, way))
                    for way, text in PLAIN.items()
                ]
            else:
                played = partial(plain_users, name, privacy)
                others = [
                    Subject(
                        "users in NumPy, step by step; sums and plans are confide's", LAZY, played
                    )
                ]
            ours = Subject("confide", LAZY, partial(confide_lazy, agent_class, name, privacy, LAZY))
            lines, ratios = table(
                f"{agent_class.name} on {name}, eps = 1, {LAZY:,} users, its own releases",
                [ours, *others],
                rounds,
            )
            sections.append(lines)
            over.append(ratios)
    return sections, over[0]


def local(rounds: int) -> list[str]:
    """Under local privacy: a crowd drawn as one sum, or a client and a message for each user."""
    privacy = LocalDP(1.0, DELTA)
    subjects = []
    for agent_class in (OFULQ, CertaintyEquivalentLQ):
        for users, counts, way in (
            (LAZY, None, "the sum of all messages"),
            (DEVICES, False, "a message from each device"),
        ):
            call = partial(confide_lazy, agent_class, "oscillator", privacy, users, counts=counts)
            subjects.append(
                Subject(f"confide, {agent_class.name}, {users:,} users, {way}", users, call)
            )
    rates, _ = measure_rates(subjects, rounds)
    lines = ["| oscillator, LocalDP, eps = 1 | episodes per CPU-second |", "|---|---|"]
    return lines + [
        f"| {each.name} | {np.median(rates[:, i]):,.0f} |" for i, each in enumerate(subjects)
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3, help="the number of rounds")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    (each, replanned), (own, lazy), devices = (
        replanning(options.rounds),
        lazily(options.rounds),
        local(options.rounds),
    )
    verdict = [
        "| required speedup on oscillator, median over rounds | measured | met |",
        "|---|---|---|",
    ]
    for text, ratio, least in (
        (
            (
                "a plan after every user, over NumPy and SciPy with the exact gradient, eps = 10: "
                "at least 20"
            ),
            replanned[0],
            20,
        ),
        (
            "the same at eps = 1, where the first users' plans need no search: at least 20",
            replanned[1],
            20,
        ),
        ("its own releases, over NumPy step by step: at least 200", lazy[1], 200),
        ("its own releases, over NumPy with episodes as arrays: at least 200", lazy[2], 200),
    ):
        verdict.append(f"| {text} | {ratio:,.3g} | {'yes' if ratio >= least else 'NO'} |")
    text = "\n\n".join("\n".join(lines) for lines in (verdict, *each, *own, devices))
    record("Speed of control", text + "\n", write=options.write)


if __name__ == "__main__":
    main()
