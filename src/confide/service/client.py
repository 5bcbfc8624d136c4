"""A user's side of a service: verify what the service says, act by the round, report once.

It needs neither the planner nor the compiler nor OpenDP: rounds are plain tables, and noise is drawn by whole numbers. Under local privacy
the contribution becomes one message on this device; whatever tables the server sends, it keeps the epsilon that the person accepts.
"""

import base64
import http.client
import json
import random
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from confide._durable import replace
from confide.errors import ConfideError, InvalidParameter, PromiseBroken, SignatureError, StaleMessage, StateError
from confide.mechanisms.exact import ExactSource
from confide.mechanisms.sources import FastSource, NoiseSource
from confide.service.documents import Statement, canonical, check_chain, check_signature, digest
from confide.service.episodes import contribution
from confide.service.messages import mechanism_of, message

_TRIES = 8
_LONGEST = 300.0  # seconds to wait, whatever the service asks for
_JOINS = 3  # batches that may close while a device joins
_RETRY = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, str]  # by names in lower case
    body: bytes


Send = Callable[[str, str, Mapping[str, str], bytes | None], Response]


def over_http(timeout: float = 30.0) -> Send:
    """By the standard library."""

    def send(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return Response(answer.status, _lower(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Response(error.code, _lower(error.headers), error.read())

    return send


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def retried(send: Send, request: tuple[str, str, Mapping[str, str], bytes | None], sleep: Callable[[float], None]) -> Response:
    """The same bytes again while the service or the network is away."""
    for tried in range(_TRIES):
        try:
            answer = send(*request)
            if answer.status not in _RETRY or tried == _TRIES - 1:
                return answer
            said = answer.headers.get("retry-after", "")
            asked = min(float(said), _LONGEST) if said.isdecimal() else 0.0
        except (OSError, http.client.HTTPException) as error:
            if tried == _TRIES - 1:
                raise ServiceRefused(503, type(error).__name__, f"cannot be reached: {type(error).__name__}") from None
            asked = 0.0
        sleep(max(asked, random.uniform(0.5, 1.0) * 0.1 * 2**tried))
    raise ServiceRefused(503, "unavailable")


class ServiceRefused(ConfideError):
    """The service answered with an error that a retry does not mend."""

    def __init__(self, status: int, kind: str, said: str | None = None) -> None:
        super().__init__(f"the service {said or f'answered {status}: {kind}'}")
        self.status, self.kind = status, kind


@dataclass(frozen=True, slots=True)
class Accepts:
    """What a person agrees to: a service that promises less is refused before anything is sent."""

    epsilon: float
    delta: float = 0.0
    trust: str = "joint"  # local: nobody but this device sees the data
    simulation: bool = False  # whether fast noise is acceptable


@dataclass(frozen=True, slots=True)
class Round:
    """How this person is served now."""

    generation: int
    policy: Mapping[str, Any]
    document: Mapping[str, Any]


class Device:
    """One person's device in one run.

    `store` is a file: the message is in it before it is sent, so that a device that restarts sends the same bytes, and never noises its
    data twice. `key` pins the run's signing key (64 hexadecimal digits); without it the first manifest that is seen is trusted, and kept
    in the store. A release that is older than the newest one seen, or another one of the same number, is refused.
    """

    def __init__(
        self,
        url: str,
        run: str,
        *,
        subject: str,
        api_key: str,
        accepts: Accepts,
        store: str | Path | None = None,
        key: str | None = None,
        send: Send | None = None,
        source: NoiseSource | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._base, self.run, self._subject = f"{url.rstrip('/')}/v1/runs/{run}", run, subject
        self._api_key, self._accepts, self._pinned = api_key, accepts, key
        self._send, self._source, self._sleep = send or over_http(), source or ExactSource(), sleep
        self._path = None if store is None else Path(store)
        self._kept: dict[str, Any] = {"which": secrets.randbits(128)}  # of several policies: drawn before there are any data
        if self._path is not None and self._path.exists():
            self._kept = json.loads(self._path.read_text())
            if self._kept.get("run", run) != run:
                raise StateError("the store is of a device in another run")
        self.manifest: dict[str, Any] | None = None
        self._manifest_digest, self._keys = "", dict[str, bytes]()
        self.round: Round | None = None

    # reading

    def join(self) -> Round:
        """Verify the manifest, its promise and the current release; the round after it."""
        if self.manifest is None:
            self._read_manifest()
        release, generation, answer = self._current()
        statement = Statement(
            "round", self.run, self._manifest_digest, generation, digest(answer.body), release.headers["confide-digest"]
        )
        self._check(answer, statement)
        document = json.loads(answer.body)
        self.round = Round(generation, _drawn(document, self._kept["which"]), document)
        return self.round

    def _current(self, tries: int = _JOINS) -> tuple[Response, int, Response]:
        """The newest release and the round after it; a batch may close between the two."""
        release = self._get("release")
        generation = self._check_release(release)
        try:
            return release, generation, self._get(f"round/{generation}")
        except ServiceRefused as refused:
            if refused.status != 410 or tries == 1:
                raise
        return self._current(tries - 1)

    def _read_manifest(self) -> None:
        answer = self._get("manifest")
        manifest = json.loads(answer.body)
        public = bytes.fromhex(manifest["key"]["public"])
        known = self._pinned or self._kept.get("key")
        if known is not None and public.hex() != known:
            raise SignatureError("the manifest is signed by another key than the one this device knows")
        check_signature(public, bytes.fromhex(answer.headers["confide-signature"]), _of_manifest(self.run, answer.body))
        if manifest["run"] != self.run or self._kept.get("manifest", digest(answer.body)) != digest(answer.body):
            raise SignatureError("the run has another manifest than the one this device knows")
        self._check_promise(manifest)
        self._keys = check_chain(json.loads(self._get("keys").body)["keys"], public)
        self.manifest, self._manifest_digest = manifest, digest(answer.body)
        self._kept |= {"run": self.run, "key": public.hex(), "manifest": self._manifest_digest}
        self._keep()

    def _check_promise(self, manifest: Mapping[str, Any]) -> None:
        promise, accepts = manifest["promise"], self._accepts
        if promise["epsilon"] > accepts.epsilon or promise["delta"] > accepts.delta:
            raise PromiseBroken(
                f"the run promises epsilon={promise['epsilon']:g}, delta={promise['delta']:g}, and this person accepts "
                f"epsilon={accepts.epsilon:g}, delta={accepts.delta:g}"
            )
        if accepts.trust == "local" and promise["trust"] != "local":
            raise PromiseBroken("the run asks for raw data, and this person accepts local privacy only")
        if manifest["simulation"] and not accepts.simulation:
            raise PromiseBroken("the run is a simulation: somebody who knows the seed can subtract its noise")

    def _check_release(self, release: Response) -> int:
        generation, found = int(release.headers["confide-generation"]), release.headers["confide-digest"]
        statement = Statement(
            "release", self.run, self._manifest_digest, generation, digest(release.body), release.headers["confide-previous"]
        )
        self._check(release, statement)
        newest, seen = self._kept.get("generation", -1), self._kept.get("digest", "")
        if generation < newest:
            raise SignatureError(f"the service shows release {generation}, and this device has seen release {newest}")
        if generation == newest and found != seen:
            raise SignatureError(f"the service shows two different releases {generation}")
        if generation == newest + 1 and seen and statement.previous != seen:
            raise SignatureError(f"release {generation} does not follow the one that this device has seen")
        self._kept |= {"generation": generation, "digest": found}
        self._keep()
        return generation

    def _check(self, answer: Response, statement: Statement) -> None:
        public = self._keys.get(answer.headers["confide-key"])
        if public is None:  # a new one, endorsed by one that is known
            trusted = bytes.fromhex(self._kept["key"])
            self._keys = check_chain(json.loads(self._get("keys").body)["keys"], trusted)
            public = self._keys.get(answer.headers["confide-key"])
        if public is None:
            raise SignatureError("the document is signed by a key that is none of the run's")
        check_signature(public, bytes.fromhex(answer.headers["confide-signature"]), statement.to_bytes())
        if statement.digest != answer.headers["confide-digest"]:
            raise SignatureError("the document has another digest than it says")

    # acting and reporting

    def act(self, step: int, state: Any) -> Any:
        """The action of this person's policy."""
        if self.round is None:
            self.join()
        assert self.round is not None
        return act(self.round.policy, step, state)

    def report(self, states: Sequence[Any], actions: Sequence[Any], rewards: Sequence[Any]) -> str:
        """Send one report about the episode: `counted`, or `same` if the service had it. It is in the store until it is answered; asked
        again before, the same bytes are sent, and after that nothing.

        `actions` and `rewards` have an entry for each step of the run's horizon; `states` has one more, the state after the last step. An
        episode that is shorter, or has states that do not exist, is counted and contributes zero, without an error.
        `StaleMessage` if the release that the episode was planned with is closed: the data are not sent again.
        """
        if "sent" not in self._kept and "outcome" not in self._kept:
            if self.round is None:
                raise InvalidParameter("a report is about an episode that was planned: call join first")
            if not len(states) - 1 == len(actions) == len(rewards):
                sizes = f"{len(states)} states, {len(actions)} actions and {len(rewards)} rewards"
                raise InvalidParameter(
                    f"an episode has an action and a reward for each step, and one more state than steps, got {sizes}"
                )
            body = self.body(states, actions, rewards)
            self._kept |= {"sent": base64.b64encode(body).decode(), "nonce": secrets.token_urlsafe(24)}
            self._keep()  # before it is sent
        outcome = self._sent() if "sent" in self._kept else "same"
        if "late" in (outcome, self._kept["outcome"]):
            raise StaleMessage("the release that the report was planned with is closed: it was not counted")
        return outcome

    def _sent(self) -> str:
        """The stored report, until it is answered; then it is deleted: it may be somebody's data."""
        headers = {"Idempotency-Key": self._kept["nonce"], "Content-Type": "application/json"}
        answer = self._retried("POST", "reports", headers, base64.b64decode(self._kept["sent"]))
        if answer.status not in (200, 201, 410):
            raise ServiceRefused(answer.status, refusal(answer))
        outcome = "late" if answer.status == 410 else str(json.loads(answer.body)["outcome"])
        self._kept = {name: value for name, value in self._kept.items() if name not in ("sent", "nonce")} | {"outcome": outcome}
        self._keep()
        return outcome

    def body(self, states: Sequence[Any], actions: Sequence[Any], rewards: Sequence[Any]) -> bytes:
        """The bytes of a report. Under local privacy each call draws noise: `report` calls it once."""
        assert self.round is not None and self.manifest is not None
        if self.manifest["promise"]["trust"] != "local":
            return joint_body(self.round.generation, self._subject, (states, actions, rewards))
        message = base64.b64encode(self._message(states, actions, rewards)).decode()
        return canonical({"subject": self._subject, "generation": self.round.generation, "message": message})

    def _message(self, states: Sequence[Any], actions: Sequence[Any], rewards: Sequence[Any]) -> bytes:
        """With noise that keeps what this person accepts, or none is sent."""
        assert self.round is not None
        channel, statistic = self.round.document["channel"], self.round.document["statistic"]
        if channel["source"] != self._source.name:
            raise PromiseBroken(f"the run wants {channel['source']} noise, and this device has {self._source.name}")
        mechanism = mechanism_of(channel, statistic, self._accepts.epsilon, self._accepts.delta)
        steps = contribution(statistic, channel, (states, actions, rewards))
        return message(channel, mechanism, steps, self.round.generation, self._source)

    # sending

    def _get(self, path: str) -> Response:
        answer = self._retried("GET", path, {}, None)
        if answer.status != 200:
            raise ServiceRefused(answer.status, refusal(answer))
        return answer

    def _retried(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        full = {"Authorization": f"Bearer {self._api_key}", **headers} if method == "POST" else dict(headers)
        return retried(self._send, (method, f"{self._base}/{path}", full, body), self._sleep)

    def _keep(self) -> None:
        if self._path is not None:
            replace(self._path, json.dumps(self._kept).encode(), mode=0o600)


def act(policy: Mapping[str, Any], step: int, state: Any) -> Any:
    """The action of a policy of a round; where it is random, by the system's entropy."""
    match policy["kind"]:
        case "tabular":
            return policy["actions"][step][state]
        case "stochastic":
            weights = policy["weights"][step][state]
            return random.SystemRandom().choices(range(len(weights)), weights)[0]
        case "random":
            return secrets.randbelow(policy["choices"])
        case "linear":
            return (np.asarray(policy["gains"][step]) @ np.asarray(state, dtype=float)).tolist()
        case "context":
            contexts = np.asarray(state, dtype=float)
            scores = contexts @ np.asarray(policy["weights"])
            if policy["widths"] is not None:
                scores = scores + np.linalg.norm(contexts @ np.asarray(policy["widths"]).T, axis=-1)
            return int(scores.argmax())
    raise InvalidParameter(f"this client knows no policy of kind {policy['kind']!r}")


def _drawn(document: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """The policy of a device that drew this number out of 2^128, as `Round.drawn` takes it."""
    edges = np.cumsum(document["shares"])
    found: Mapping[str, Any] = document["policies"][int(np.searchsorted(edges[:-1], number / 2.0**128 * edges[-1], side="right"))]
    return found


def _of_manifest(run: str, body: bytes) -> bytes:
    return Statement("manifest", run, "", 0, digest(body)).to_bytes()


def refusal(answer: Response) -> str:
    """The kind of a problem (RFC 9457)."""
    try:
        return str(json.loads(answer.body)["type"]).rsplit("/", 1)[-1]
    except (ValueError, KeyError, TypeError):
        return "no reason given"


def joint_body(generation: int, subject: str, episode: Sequence[Any]) -> bytes:
    """A report of a joint run: the episode itself."""
    trajectory = dict(zip(("states", "actions", "rewards"), map(_plain, episode), strict=True))
    return canonical({"subject": subject, "generation": generation, "trajectory": trajectory})


def _plain(part: Any) -> Any:
    """As JSON; what is no number of JSON is null, as in other languages."""
    if isinstance(part, np.ndarray | np.generic):
        return _plain(part.tolist())
    if isinstance(part, list | tuple):
        return [_plain(each) for each in part]
    fits = isinstance(part, int | float) and abs(part) < 2**53
    return part if fits else None


__all__ = ["Accepts", "Device", "FastSource", "Response", "Round", "ServiceRefused", "act", "over_http"]
