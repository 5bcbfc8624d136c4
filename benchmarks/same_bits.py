"""Do two checkouts compute the same bits?

    python benchmarks/same_bits.py OLD NEW [--only questions-vi]

OLD and NEW are checkouts of confide. Each of them runs its own copy of this file, with its own
source code, so that a copy may follow when a public name moves. A copy writes digests of plain
arrays and numbers under fixed names, and these are compared. All noise is fast noise of a fixed
seed. Instead of a checkout, OLD may be a file that `--write` wrote on the same machine:

    python benchmarks/same_bits.py --write digests.json

The exit code is 0 if everything is the same, and 1 if anything differs or could not be computed.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

USERS = 3000
# So many devices report before the first batch is closed, and so many after that.
DEVICES = (40, 10)

Digests = dict[str, dict[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", nargs="?", type=Path, help="a checkout, or a file of digests")
    parser.add_argument("new", nargs="?", type=Path, help="a checkout, or a file of digests")
    parser.add_argument("--only", default="", help="compare only names that contain this text")
    parser.add_argument("--python", default="", help="the interpreter that both checkouts use")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=2)
    parser.add_argument("--write", type=Path, help="write the digests of this checkout to a file")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    options = parser.parse_args()
    if options.write is not None:
        digests = compute_digests(options.only, show=not options.quiet)
        options.write.write_text(json.dumps(digests, indent=0, sort_keys=True) + "\n")
        return 0
    if options.old is None or options.new is None:
        parser.error("give two checkouts, OLD and NEW, or --write FILE")
    return compare(options)


# The comparison.


def compare(given: argparse.Namespace) -> int:
    digests: dict[str, Digests] = {}

    def read(label: str, place: Path) -> None:
        digests[label] = read_digests(place, label, given)

    readers = [
        threading.Thread(target=read, args=("old", given.old)),
        threading.Thread(target=read, args=("new", given.new)),
    ]
    for reader in readers:
        reader.start()
        if given.processes == 1:
            reader.join()
    for reader in readers:
        reader.join()
    if len(digests) < 2:
        print("A checkout could not compute its digests.")
        return 1
    return print_differences(digests["old"], digests["new"])


def read_digests(place: Path, label: str, given: argparse.Namespace) -> Digests:
    """The digests of a checkout or of a file."""
    if place.is_file():
        digests: Digests = json.loads(place.read_text())
        return {name: each for name, each in digests.items() if given.only in name}
    checkout = place.resolve()
    own = checkout / ".venv" / "bin" / "python"
    python = given.python or (str(own) if own.exists() else sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "digests.json"
        command = [python, str(checkout / "benchmarks" / "same_bits.py"), "--write", str(written)]
        command += ["--only", given.only]
        process = subprocess.Popen(
            command, env=environment(checkout), cwd=folder, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        for line in process.stderr:
            print(f"{label}: {line}", end="", file=sys.stderr, flush=True)
        if process.wait():
            raise SystemExit(f"{checkout} failed")
        digests: Digests = json.loads(written.read_text())
        return digests


def environment(checkout: Path) -> dict[str, str]:
    """One thread, the checkout's source code, and kernels that were compiled from it.

    A cached kernel does not notice when a kernel that it calls changes. So kernels are cached under
    a digest of all of them.
    """
    source = checkout / "src"
    kernels = sorted([*source.rglob("*kernels.py"), *source.rglob("_jit.py")])
    compiled_from = hashlib.sha256()
    for kernel in kernels:
        compiled_from.update(str(kernel.relative_to(source)).encode() + kernel.read_bytes())
    cache = checkout / ".numba_cache" / f"same_bits-{compiled_from.hexdigest()[:16]}"
    own = {
        "PYTHONPATH": os.pathsep.join([str(source), str(checkout)]),
        "NUMBA_CACHE_DIR": str(cache),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
    }
    return os.environ | own


def print_differences(old: Digests, new: Digests) -> int:
    differences = failures = 0
    for name in sorted(old | new):
        before = old.get(name)
        after = new.get(name)
        if before is not None and before == after:
            if "failed" in before:
                failures += 1
                print(f"{name}: both failed: {before['failed']}")
            continue
        differences += 1
        print(f"{name}: {in_words(before)} -> {in_words(after)}")
    print(f"{len(old | new)} values: {differences} differ, {failures} could not be computed")
    return 1 if differences or failures or not old else 0


def in_words(value: dict[str, Any] | None) -> str:
    if value is None:
        return "missing"
    if "failed" in value:
        return f"failed: {value['failed']}"
    if "refused" in value:
        return "refused"
    return f"{value['shape']} mean {value['mean']:.17g}"


# What one checkout computes.


def compute_digests(only: str, *, show: bool) -> Digests:
    from confide.errors import ConfideError, ConfideWarning

    warnings.simplefilter("ignore", ConfideWarning)
    digests: Digests = {}
    wanted = [(name, case) for name, case in all_cases() if only in name]
    for number, (name, case) in enumerate(wanted, start=1):
        started = time.perf_counter()
        try:
            for part, value in case():
                digests[f"{name}: {part}"] = digest(value)
        except ConfideError:
            digests[name] = {"refused": True}
        except Exception as error:
            digests[name] = {"failed": f"{type(error).__name__}: {error}"}
        if show:
            seconds = time.perf_counter() - started
            line = f"{number}/{len(wanted)} {name}, {seconds:.1f} s"
            print(line, file=sys.stderr, flush=True)
    return digests


def digest(value: Any) -> dict[str, Any]:
    """A digest of an array, a number, text or bytes; the mean shows how far two values differ."""
    if isinstance(value, bytes):
        value = np.frombuffer(value, dtype=np.uint8)
    if isinstance(value, str):
        value = np.frombuffer(value.encode(), dtype=np.uint8)
    numbers = np.asarray(value)
    if numbers.dtype == bool:
        numbers = numbers.astype(np.int64)
    if numbers.dtype.kind not in "iuf":
        raise TypeError(f"{type(value).__name__} is neither an array nor a number")
    plain = np.ascontiguousarray(
        numbers, dtype=np.float64 if numbers.dtype.kind == "f" else np.int64
    )
    hashed = hashlib.sha256(f"{plain.dtype.str} {plain.shape} ".encode() + plain.tobytes())
    finite = plain[np.isfinite(plain)] if plain.size else plain
    mean = float(finite.mean()) if finite.size else 0.0
    return {"digest": hashed.hexdigest(), "shape": list(plain.shape), "mean": mean}


Case = Callable[[], Iterator[tuple[str, Any]]]


def all_cases() -> Iterator[tuple[str, Case]]:
    yield from agent_cases()
    yield from estimator_cases()
    yield from learning_cases()


def agent_cases() -> Iterator[tuple[str, Case]]:
    from confide import (
        CentralDP,
        DistributedDP,
        JointDP,
        LocalDP,
        NoPrivacy,
        agents,
        problems,
    )

    requests = {
        "none": NoPrivacy(),
        "joint": JointDP(1.0, 1e-5),
        "joint pure": JointDP(1.0, 0.0, relation="null"),
        "central": CentralDP(2.0, 1e-6),
        "local": LocalDP(4.0, 1e-6),
        "local pure": LocalDP(4.0, 0.0),
        "distributed": DistributedDP(1.0, 1e-5, dropouts=0.2),
    }
    river = problems.riverswim(states=4, horizon=8)
    coins = problems.TabularMDP(
        river.transitions, river.rewards, river.start, stochastic_rewards=True
    )
    mixtures = {
        "lock": problems.lock(0, states=10, actions=3, horizon=4, jump=4),
        "lock-rewards": problems.lock_rewards(0, states=10, actions=3, horizon=4, jump=4),
        "rand": problems.rand(0, states=8, actions=3, horizon=4, dimension=4),
    }
    linear = {
        "latent": problems.latent(0, states=8, actions=3, horizon=4, dimension=3),
        "one-hot": problems.one_hot(states=4, horizon=4),
    }
    tables = {
        "riverswim": river,
        "coins": coins,
        "riverswim-stage": problems.riverswim_stage(states=4, horizon=6),
        "deep-sea": problems.deep_sea(5),
    }
    bandits = {
        "linear-bandit": problems.linear_bandit(4, 5, population=256, seed=0),
        "wide-bandit": problems.linear_bandit(8, 3, population=256, seed=1),
    }
    systems = {
        "oscillator": problems.oscillator(),
        "thermal": problems.thermal(horizon=6),
    }
    agents_and_problems = {
        "ucrl-vtr": (agents.UCRLVTR, mixtures),
        "ucrl-vtr-plus": (agents.UCRLVTRPlus, mixtures),
        "linopt-vi": (agents.LinOptVI, mixtures),
        "linopt-po": (agents.LinOptPO, mixtures),
        "likelihood-vi": (agents.LikelihoodVI, mixtures),
        "questions-vi": (agents.QuestionsVI, mixtures),
        "lsvi-ucb": (agents.LSVIUCB, linear),
        "next-state-vi": (agents.NextStateVI, linear),
        "lin-ts": (agents.LinTS, bandits),
        "lin-ucb": (agents.LinUCB, bandits),
        "tabular-psrl": (agents.TabularPSRL, tables),
        "pucb": (agents.PUCB, tables),
        "ucbvi": (agents.UCBVI, tables),
        "ucbpo": (agents.UCBPO, tables),
        "dp-ucbvi": (agents.DPUCBVI, tables),
        "ldp-obi": (agents.LDPOBI, tables),
        "ofu-lq": (agents.OFULQ, systems),
        "thompson-lq": (agents.ThompsonLQ, systems),
        "certainty-equivalent-lq": (agents.CertaintyEquivalentLQ, systems),
    }
    with_paper = {"ucrl-vtr", "ucrl-vtr-plus", "linopt-vi", "linopt-po", "lsvi-ucb", "lin-ucb"}
    with_paper |= {"pucb", "ucbvi", "ucbpo", "dp-ucbvi", "ldp-obi", "ofu-lq"}
    for name, (kind, problems_of_agent) in agents_and_problems.items():
        for place, problem in problems_of_agent.items():
            for request_name, request in requests.items():
                for calibration in ("tight", "paper") if name in with_paper else ("tight",):

                    def make(
                        kind: Any = kind,
                        problem: Any = problem,
                        request: Any = request,
                        calibration: str = calibration,
                        **more: Any,
                    ) -> Any:
                        # Agents that are in no paper have no such option.
                        if calibration == "paper":
                            more |= {"calibration": calibration}
                        return kind(problem.public, episodes=USERS, privacy=request, **more)

                    case = f"{name}/{place}/{request_name}/{calibration}"
                    yield f"run/{case}", bind(run_agent, make, problem)
                    if "local" in request_name:
                        yield f"messages/{case}", bind(send_messages, make, problem)
                    if request_name == "distributed":
                        yield f"shares/{case}", bind(send_shares, make, problem)
    references: dict[str, tuple[Any, dict[str, Any]]] = {
        "uniform": (agents.Uniform, mixtures | tables | bandits | systems),
        "oracle": (agents.Oracle, mixtures | tables | bandits | systems),
        "no-data": (agents.NoData, mixtures),
    }
    for name, (kind, problems_of_agent) in references.items():
        for place, problem in problems_of_agent.items():
            knows = problem if name == "oracle" else problem.public

            def make_reference(kind: Any = kind, knows: Any = knows) -> Any:
                return kind(knows, episodes=USERS)

            yield f"run/{name}/{place}", bind(run_agent, make_reference, problem)


def bind(case: Callable[..., Iterator[tuple[str, Any]]], *given: Any) -> Case:
    return lambda: case(*given)


def run_agent(make: Callable[..., Any], problem: Any) -> Iterator[tuple[str, Any]]:
    """A run, counted where this is possible, and under local privacy with devices."""
    import confide

    agent = make()
    run = confide.run(agent, problem, seed=5)
    users = run.checkpoints
    for curve in ("regret", "value", "noise_std", "signal"):
        yield curve, run.curve(curve, users)
    yield "users", run.episodes
    yield from policy_arrays(run.policy)
    if hasattr(agent, "released"):
        released = agent.released()
        yield "released", released.values
        yield "released noise", released.noise.std
        yield "generation", released.generation
        guarantee = released.guarantee
        if guarantee.request.epsilon < float("inf"):
            yield "epsilon", guarantee.loss.epsilon_at(guarantee.request.delta)
        yield "covered users", guarantee.users


def policy_arrays(policy: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(policy, "probabilities"):
        yield "policy", policy.probabilities()
    for name in ("gains", "weights", "widths", "choices"):
        value = getattr(policy, name, None)
        if value is not None:
            yield f"policy {name}", value


def send_messages(make: Callable[..., Any], problem: Any) -> Iterator[tuple[str, Any]]:
    """What devices send, before and after a release."""
    from confide.mechanisms.sources import noise_source

    agent = make(noise=noise_source("fast", 3))
    agent.rng = np.random.default_rng(4)
    rng = np.random.default_rng(5)
    for batch, devices in enumerate(DEVICES):
        sent = []
        for _ in range(devices):
            client = agent.client()
            policy = client.plan(agent.released())
            sent.append(client.report(problem.sample(policy, 1, rng)))
            agent.absorb(sent[-1])
        yield f"messages of batch {batch}", b"".join(sent)
        yield f"channel of batch {batch}", agent.channel().id
        yield f"round of batch {batch}", agent.current_round().digest
        if batch == 0 and agent.released().generation == 0:
            agent.close()
    yield "released", agent.released().values
    yield "published", agent.publish("run")


def send_shares(make: Callable[..., Any], problem: Any) -> Iterator[tuple[str, Any]]:
    """What devices hand over to secure aggregation."""
    from confide.mechanisms.sources import noise_source

    agent = make(noise=noise_source("fast", 3))
    agent.rng = np.random.default_rng(4)
    rng = np.random.default_rng(5)
    numbers: list[Any] = []

    def aggregate(batch: Any, share: Any) -> None:
        numbers.append(share.for_aggregation())
        agent.shares.simulate_aggregation(batch, share)

    for _ in range(sum(DEVICES)):
        client = agent.shares.client()
        policy = client.plan(agent.released())
        client.contribute(problem.sample(policy, 1, rng), aggregate)
    yield "shares", np.concatenate(numbers)
    yield "round", agent.current_round().digest
    yield "released", agent.released().values


def logged_problems() -> dict[str, Any]:
    from confide import problems

    return {
        "riverswim": problems.riverswim(states=5, horizon=12),
        "garnet": problems.garnet(states=8, actions=3, branches=2, horizon=6),
    }


def open_log(problem: Any) -> Any:
    from confide import logs
    from confide.policy import uniform_policy

    policy = uniform_policy(problem.horizon, problem.states, problem.actions)
    users = logs.simulate(problem, policy, USERS, np.random.default_rng(6))
    return logs.in_memory(users, max_steps=problem.horizon)


def central_requests() -> dict[str, Any]:
    from confide import CentralDP, NoPrivacy

    return {
        "none": NoPrivacy(),
        "central": CentralDP(1.0, 1e-6),
        "central null": CentralDP(2.0, 1e-6, relation="null"),
        "central pure": CentralDP(2.0, 0.0),
    }


def estimator_cases() -> Iterator[tuple[str, Case]]:
    from confide import evaluation

    for place, problem in logged_problems().items():
        S = problem.states
        A = problem.actions
        bound = float(problem.horizon)
        common = {"states": S, "discount": 0.95, "return_bound": bound}
        general = {"discount": 0.95, "return_bound": bound}
        features = np.random.default_rng(7).random((S, 3)) + 0.1
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        target = np.random.default_rng(8).dirichlet(np.ones(A), size=S)
        estimators: dict[str, tuple[Any, dict[str, Any]]] = {
            "counts-and-sums": (evaluation.CountsAndSums, common),
            "counts-and-sums, visits": (
                evaluation.CountsAndSums,
                common | {"visits": 3},
            ),
            "counts-and-sums, shrunk": (
                evaluation.CountsAndSums,
                common | {"shrink": "empirical-bayes", "components": features},
            ),
            "dp-lsw": (evaluation.DPLSW, common),
            "dp-lsw, paper": (evaluation.DPLSW, common | {"calibration": "paper"}),
            "dp-lsl": (evaluation.DPLSL, common | {"ridge": 100.0}),
            "dp-lsl, paper": (
                evaluation.DPLSL,
                common | {"ridge": 100.0, "calibration": "paper"},
            ),
            "sufficient-statistics": (
                evaluation.SufficientStatistics,
                general | {"features": features},
            ),
            "lstd": (evaluation.PrivateLSTD, general | {"features": features}),
            "importance-sampling": (
                evaluation.ImportanceSampling,
                general | {"target": target, "clip": 3.0},
            ),
            "importance-sampling, per decision": (
                evaluation.ImportanceSampling,
                general | {"target": target, "clip": 3.0, "per_decision": True},
            ),
            "weighted-importance-sampling": (
                evaluation.WeightedImportanceSampling,
                general | {"target": target, "clip": 3.0},
            ),
        }
        for name, (kind, options) in estimators.items():
            for request_name, request in central_requests().items():
                case = f"estimate/{name}/{place}/{request_name}"
                yield case, bind(estimate_values, kind, options, problem, request)
        exact = {
            "lsw": evaluation.LSW(**common),
            "lsl": evaluation.LSL(**common, ridge=100.0),
        }
        for name, estimator in exact.items():
            yield f"estimate/{name}/{place}", bind(fit_exactly, estimator, problem)


def estimate_values(
    kind: Any, options: dict[str, Any], problem: Any, request: Any
) -> Iterator[tuple[str, Any]]:
    estimator = kind(**options)
    estimate = estimator.release(open_log(problem), privacy=request, rng=np.random.default_rng(9))
    yield "values", estimate.values
    if estimate.noise_std is not None:
        yield "noise", estimate.noise_std
        yield "interval", np.stack(estimate.interval(0.9))
    if estimate.parameters is not None:
        yield "parameters", estimate.parameters
    if request.epsilon < float("inf"):
        yield "epsilon", estimate.guarantee.loss.epsilon_at(request.delta)


def fit_exactly(estimator: Any, problem: Any) -> Iterator[tuple[str, Any]]:
    yield "values", estimator.release(open_log(problem)).values


def learning_cases() -> Iterator[tuple[str, Case]]:
    for place, problem in logged_problems().items():
        for rewards in ("known", "learned"):
            for request_name, request in central_requests().items():
                case = f"learn/{place}/{rewards} rewards/{request_name}"
                yield case, bind(learn_policy, problem, rewards == "known", request)


def learn_policy(problem: Any, known_rewards: bool, request: Any) -> Iterator[tuple[str, Any]]:
    """A model from one half of a log, its policy, and a bound from the other half."""
    from confide import NoPrivacy, offline

    rewards = {"rewards": problem.rewards[0]} if known_rewards else {"reward_range": (0.0, 1.0)}
    question = offline.ModelRelease(
        states=problem.states, actions=problem.actions, discount=0.95, ends=False, **rewards
    )
    learned_from, held_out = open_log(problem).split(0.5)
    model = question.release(learned_from, privacy=request, rng=np.random.default_rng(10))
    for name in ("start", "behaviour", "rewards", "transitions", "behaviour_value"):
        yield name, getattr(model, name)
    policy = model.plan()
    yield "policy", policy.weights
    yield "value", model.value(policy)
    yield "optimist's policy", model.plan(pessimism=0.0).weights
    if isinstance(request, NoPrivacy):
        return
    for method in ("weights", "model"):
        bound = model.improvement(policy, held_out, method=method, rng=np.random.default_rng(11))
        yield f"bound, {method}", bound.bound
        yield f"share, {method}", bound.share


if __name__ == "__main__":
    sys.exit(main())
