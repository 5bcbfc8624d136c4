"""A crowd of simulated people, who use a service over HTTP as real ones would: for demonstrations, tests and benchmarks."""

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


class SharedReads:
    """What many devices of one process read, read once: manifest and keys for good, release and round until a report is late."""

    def __init__(self, send: Send) -> None:
        self._send, self._known = send, dict[str, HttpResponse]()
        self._lock = threading.Lock()

    def __call__(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpResponse:
        answer = (
            self._send(method, url, headers, body) if method != "GET" else self._read(url, headers)
        )
        if answer.status == 410:
            self.forget()
        return answer

    def _read(self, url: str, headers: Mapping[str, str]) -> HttpResponse:
        with self._lock:
            if url not in self._known:
                answer = self._send("GET", url, headers, None)
                if answer.status != 200:
                    return answer
                self._known[url] = answer
            return self._known[url]

    def forget(self) -> None:
        with self._lock:
            self._known = {
                url: answer
                for url, answer in self._known.items()
                if url.endswith(("/manifest", "/keys"))
            }


def plain_policy(policy: Mapping[str, Any]) -> Policy:
    """A policy of a round, as one that a simulated problem can play."""
    if policy["kind"] == "tabular":
        return TabularPolicy(np.array(policy["actions"]), policy["choices"])
    if policy["kind"] == "stochastic":
        return StochasticPolicy(np.array(policy["weights"]))
    raise ConfideError(f"the crowd plays no policies of kind {policy['kind']}")


class Crowd:
    """People who come one after the other, each with a device of their own; `world` is the true problem."""

    def __init__(
        self,
        url: str,
        run: str,
        world: Any,
        *,
        api_key: str,
        accepts: Accepts,
        source: Callable[[], NoiseSource],
        send: Send | None = None,
        seed: int = 0,
    ) -> None:
        self._url, self._run, self._world, self._api_key = url, run, world, api_key
        self._accepts, self._source, self._send = accepts, source, SharedReads(send or over_http())
        self._seed = seed
        self._stop: Callable[[], bool] = lambda: False
        self.outcomes: Counter[str] = Counter()

    def person(self, number: int) -> str:
        """One person's visit: join, play, report."""
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
            episode = self._world.sample(policy, 1, rng)
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
        """So many people, `at_once` of them at the same time, until `stop` says that nobody else should come."""
        self._stop = stop
        with ThreadPoolExecutor(at_once) as pool:
            for start in range(0, people, 32 * at_once):
                numbers = range(start, min(people, start + 32 * at_once))
                found = list(
                    pool.map(lambda number: "stopped" if stop() else self.person(number), numbers)
                )
                if stop() or "finished" in found:
                    return
