"""A crowd of simulated people, for demonstrations, tests and benchmarks.

They use a service over HTTP as real people would. To save time, their devices share what they read.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from confide.errors import ConfideError, StaleMessage
from confide.mechanisms.sources import NoiseSource
from confide.policy import Policy, StochasticPolicy, TabularPolicy
from confide.service.device.client import Accepts, Device
from confide.service.device.transport import HttpResponse, Send, ServiceRefused, over_http

# People come in groups of so many for each one who is there at the same time. Between two groups
# the crowd asks whether to go on. A matter of taste.
_GROUP_FACTOR = 32


class SharedReads:
    """A transport for many devices of one process, which reads each document once.

    Manifest and keys are kept for good, release and round until a report is late.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._answers: dict[str, HttpResponse] = {}
        self._lock = threading.Lock()

    def __call__(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpResponse:
        if method == "GET":
            answer = self._read(url, headers)
        else:
            answer = self._send(method, url, headers, body)
        if answer.status == 410:
            self.forget()
        return answer

    def _read(self, url: str, headers: Mapping[str, str]) -> HttpResponse:
        with self._lock:
            if url not in self._answers:
                answer = self._send("GET", url, headers, None)
                if answer.status != 200:
                    return answer
                self._answers[url] = answer
            return self._answers[url]

    def forget(self) -> None:
        """Forget what changes from release to release."""
        with self._lock:
            self._answers = {
                url: answer
                for url, answer in self._answers.items()
                if url.endswith(("/manifest", "/keys"))
            }


def plain_policy(policy: Mapping[str, Any]) -> Policy:
    """Return a policy of a round as one that a simulated problem can play."""
    if policy["kind"] == "tabular":
        return TabularPolicy(np.array(policy["actions"]), policy["choices"])
    if policy["kind"] == "stochastic":
        return StochasticPolicy(np.array(policy["weights"]))
    raise ConfideError(f"the crowd plays no policies of kind {policy['kind']}")


class Crowd:
    """People who come one after the other, each with a device of their own.

    `problem` is the true problem, in which they play.
    """

    def __init__(
        self,
        url: str,
        run: str,
        problem: Any,
        *,
        api_key: str,
        accepts: Accepts,
        source: Callable[[], NoiseSource],
        send: Send | None = None,
        seed: int = 0,
    ) -> None:
        self._url = url
        self._run = run
        self._problem = problem
        self._api_key = api_key
        self._accepts = accepts
        self._source = source
        self._send = SharedReads(send or over_http())
        self._seed = seed
        self._stop: Callable[[], bool] = lambda: False
        self.outcomes: Counter[str] = Counter()

    def person(self, number: int) -> str:
        """Let one person visit: join, play, report. Return what became of the report."""
        rng = np.random.default_rng([self._seed, number])
        device = Device(
            self._url,
            self._run,
            subject=f"simulated person {number}",
            api_key=self._api_key,
            accepts=self._accepts,
            send=self._send,
            source=self._source(),
            sleep=self._pause,
        )
        try:
            policy = plain_policy(device.join().policy)
            episode = self._problem.sample(policy, 1, rng)
            outcome = device.report(episode.states[0], episode.actions[0], episode.rewards[0])
        except StaleMessage:
            outcome = "late"
        except ServiceRefused as refused:
            outcome = refused.kind
            self._send.forget()
        self.outcomes[outcome] += 1
        return outcome

    def _pause(self, seconds: float) -> None:
        if self._stop():
            raise ServiceRefused(503, "stopped")
        time.sleep(seconds)

    def come(
        self, people: int, *, at_once: int = 8, stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Let so many people come, `at_once` of them at the same time.

        Nobody else comes once `stop` says so, or once the run is finished.
        """
        self._stop = stop

        def visit(number: int) -> str:
            return "stopped" if stop() else self.person(number)

        group = _GROUP_FACTOR * at_once
        with ThreadPoolExecutor(at_once) as pool:
            for start in range(0, people, group):
                outcomes = list(pool.map(visit, range(start, min(people, start + group))))
                if stop() or "finished" in outcomes:
                    return
