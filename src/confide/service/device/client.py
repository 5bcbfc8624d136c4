"""A user's side of a service: verify what the service says, act by the round, report once.

It needs neither the planner nor the compiler nor OpenDP: rounds are plain tables, and noise is drawn by whole numbers. Under local privacy
the contribution becomes one message on this device; whatever tables the server sends, it keeps the epsilon that the person accepts.
The service is not trusted: everything that it sends is checked before it is used (`checks`), and what is refused raises a `ConfideError`.
"""

import base64
import hashlib
import hmac
import json
import os
import random
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from confide._durable import replace
from confide._locks import lock, open_lock
from confide.arguments import choice, flag, private_kind, real, whole
from confide.errors import (
    AnotherRound,
    InvalidParameter,
    PrivacyError,
    PromiseBroken,
    SignatureError,
    StaleMessage,
    StateError,
)
from confide.mechanisms.exact import ExactSource
from confide.mechanisms.sources import FastSource, NoiseSource
from confide.service.device.checks import (
    check_keys,
    check_manifest,
    check_round,
    fields,
    one_of,
    parse_json,
)
from confide.service.device.episodes import contribution, joint_body
from confide.service.device.messages import mechanism_of, message
from confide.service.device.transport import (
    FINAL_REFUSALS,
    HttpResponse,
    Send,
    ServiceRefused,
    over_http,
    refusal,
    retried,
)
from confide.service.documents import Statement, canonical, check_key_chain, check_signature, digest

# of a store
_TEXTS = ("run", "key", "manifest", "digest", "sent", "nonce", "outcome", "salt", "person")
_JOINS = 3  # batches that may close while a device joins
_HEADERS = {
    "confide-generation": re.compile("[0-9]{1,15}"),
    "confide-digest": re.compile("[0-9a-f]{64}"),
    "confide-previous": re.compile("[0-9a-f]{64}"),
    "confide-signature": re.compile("[0-9a-f]{128}"),
    "confide-key": re.compile("[0-9a-f]{16}"),
}


@dataclass(frozen=True, slots=True)
class Accepts:
    """What a person agrees to: a service that promises less is refused before anything is sent."""

    epsilon: float
    delta: float = 0.0
    trust: str = "joint"  # local: nobody but this device sees the data
    simulation: bool = False  # whether fast noise is acceptable
    # Between which inputs the outputs must be hard to tell apart. "null" compares a person's data with no data; it is
    # weaker than "replace", which compares them with any other person's, so "null" also accepts "replace".
    relation: str = "replace"

    def __post_init__(self) -> None:
        real("epsilon", self.epsilon, above=0, finite=False)
        real("delta", self.delta, at_least=0, at_most=1)
        choice("trust", self.trust, ("joint", "local"))
        flag("simulation", self.simulation)
        choice("relation", self.relation, ("replace", "null"))


@dataclass(frozen=True, slots=True)
class ServedRound:
    """How this person is served now."""

    generation: int
    policy: Mapping[str, Any]
    document: Mapping[str, Any]


class Device:
    """One person's device in one run.

    `store` is a file: the message is in it before it is sent, so that a device that restarts sends the same bytes, and never noises its
    data twice. Any number of devices may share a store, in one process or in several: they take turns by a lock on a file beside it, and
    read it again before noise is drawn.

    A store belongs to one person in one run, and a device of another person is refused. For that the store has a salted hash of `subject`.
    Whoever holds the file can test whether it belongs to a person whose name they guess. A report that waits for its answer names the
    person.

    A device without a store cannot know of another one: keep one of them for a person, and make it after a fork, because a process that was
    forked is refused. `key` pins the run's signing key (64 hexadecimal digits); without it the first manifest that is seen is trusted, and
    kept in the store. A release that is older than the newest one seen, or another one of the same number, is refused.
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
        private_kind("subject", subject, str)
        self._base, self.run, self._subject = f"{url.rstrip('/')}/v1/runs/{run}", run, subject
        self._api_key, self._accepts, self._pinned = api_key, accepts, key
        self._send, self._source, self._sleep = send or over_http(), source or ExactSource(), sleep
        # One name for the store, whatever links lead to it and wherever the process moves later.
        self._path = None if store is None else Path(os.path.realpath(store))
        self._process = os.getpid()
        self._lock = threading.Lock()
        salt = secrets.token_hex(16)
        # Of several policies, `which` chooses one. It is drawn before there are any data.
        self._kept: dict[str, Any] = {
            "which": secrets.randbits(128),
            "salt": salt,
            "person": _salted(salt, subject),
        }
        self._read_store()
        self.manifest: dict[str, Any] | None = None
        self._manifest_digest, self._keys = "", dict[str, bytes]()
        self.round: ServedRound | None = None

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a device cannot be copied or pickled, because two copies would noise the same data twice: share a store"
        )

    # reading

    def join(self) -> ServedRound:
        """Verify the manifest, its promise and the current release; the round after it."""
        if self.manifest is None:
            self._read_manifest()
        assert self.manifest is not None
        release, generation, answer = self._current()
        statement = Statement(
            "round",
            self.run,
            self._manifest_digest,
            generation,
            digest(answer.body),
            _header(release, "confide-digest"),
        )
        self._check(answer, statement)
        local = self.manifest["promise"]["trust"] == "local"
        document = check_round(
            parse_json("the round", answer.body), self.run, generation, local=local
        )
        self.round = ServedRound(generation, _drawn(document, self._kept["which"]), document)
        return self.round

    def _current(self, tries: int = _JOINS) -> tuple[HttpResponse, int, HttpResponse]:
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
        manifest = check_manifest(parse_json("the manifest", answer.body))
        public = bytes.fromhex(manifest["key"]["public"])
        known = self._pinned or self._kept.get("key")
        if known is not None and public.hex() != known:
            raise SignatureError(
                "the manifest is signed by another key than the one this device knows"
            )
        check_signature(
            public,
            bytes.fromhex(_header(answer, "confide-signature")),
            _of_manifest(self.run, answer.body),
        )
        if manifest["run"] != self.run or self._kept.get("manifest", digest(answer.body)) != digest(
            answer.body
        ):
            raise SignatureError("the run has another manifest than the one this device knows")
        self._check_promise(manifest)
        self._keys = self._read_keys(public)
        self.manifest, self._manifest_digest = manifest, digest(answer.body)
        with self._turn() as kept:
            if kept.get("manifest", self._manifest_digest) != self._manifest_digest:
                raise SignatureError("the run has another manifest than the one this device knows")
            kept |= {"run": self.run, "key": public.hex(), "manifest": self._manifest_digest}

    def _read_keys(self, trusted: bytes) -> dict[str, bytes]:
        return check_key_chain(
            check_keys(parse_json("the list of keys", self._get("keys").body)), trusted
        )

    def _check_promise(self, manifest: Mapping[str, Any]) -> None:
        promise, accepts = manifest["promise"], self._accepts
        if promise["epsilon"] > accepts.epsilon or promise["delta"] > accepts.delta:
            raise PromiseBroken(
                f"the run promises epsilon={promise['epsilon']:g}, delta={promise['delta']:g}, and this person accepts "
                f"epsilon={accepts.epsilon:g}, delta={accepts.delta:g}"
            )
        if accepts.trust == "local" and promise["trust"] != "local":
            raise PromiseBroken(
                "the run asks for raw data, and this person accepts local privacy only"
            )
        if accepts.relation == "replace" and promise["relation"] != "replace":
            raise PromiseBroken(
                "the run's guarantee compares a person's data with no data at all, which is weaker than a comparison with "
                'another person\'s data: whoever accepts it says so with relation="null"'
            )
        if manifest["simulation"] and not accepts.simulation:
            raise PromiseBroken(
                "the run is a simulation: somebody who knows the seed can subtract its noise"
            )

    def _check_release(self, release: HttpResponse) -> int:
        generation, shown = (
            int(_header(release, "confide-generation")),
            _header(release, "confide-digest"),
        )
        previous = _header(release, "confide-previous")
        statement = Statement(
            "release", self.run, self._manifest_digest, generation, digest(release.body), previous
        )
        self._check(release, statement)
        with self._turn() as kept:
            newest, seen = kept.get("generation", -1), kept.get("digest", "")
            if generation < newest:
                raise SignatureError(
                    f"the service shows release {generation}, and this device has seen release {newest}"
                )
            if generation == newest and shown != seen:
                raise SignatureError(f"the service shows two different releases {generation}")
            if generation == newest + 1 and seen and previous != seen:
                raise SignatureError(
                    f"release {generation} does not follow the one that this device has seen"
                )
            kept |= {"generation": generation, "digest": shown}
        return generation

    def _check(self, answer: HttpResponse, statement: Statement) -> None:
        name = _header(answer, "confide-key")
        if name not in self._keys:  # a new one, endorsed by one that is known
            self._keys = self._read_keys(bytes.fromhex(self._kept["key"]))
        if name not in self._keys:
            raise SignatureError("the document is signed by a key that is none of the run's")
        check_signature(
            self._keys[name],
            bytes.fromhex(_header(answer, "confide-signature")),
            statement.to_bytes(),
        )
        if statement.digest != _header(answer, "confide-digest"):
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

        `actions` and `rewards` have an entry for each step of the run's horizon; `states` has one more, the state after the last step.
        Steps after the horizon are left out. Steps that are missing, or have states that do not exist, contribute zero, without an error.
        `StaleMessage` if the release that the episode was planned with is closed: the data are not sent again.
        `ServiceRefused` if the service refuses the report. If it would refuse the same bytes each time, the report is deleted, and this
        store never sends another one, because a second noisy message would reveal more than the person accepts.
        """
        with self._turn() as kept:
            if "sent" not in kept and "outcome" not in kept:
                body = self._episode_body(states, actions, rewards)
                # stored before it is sent
                kept |= {
                    "sent": base64.b64encode(body).decode(),
                    "nonce": secrets.token_urlsafe(24),
                }
        outcome = self._sent(kept) if "sent" in kept else "same"
        if "refused" in self._kept:
            raise ServiceRefused(*self._kept["refused"])
        if "late" in (outcome, self._kept["outcome"]):
            raise StaleMessage(
                "the release that the report was planned with is closed: it was not counted"
            )
        if "another-round" in (outcome, self._kept["outcome"]):
            raise AnotherRound(
                "the service has planned another round than the one that the report answers: it was not counted"
            )
        return outcome

    def _episode_body(
        self, states: Sequence[Any], actions: Sequence[Any], rewards: Sequence[Any]
    ) -> bytes:
        if self.round is None:
            raise InvalidParameter("a report is about an episode that was planned: call join first")
        if not len(states) - 1 == len(actions) == len(rewards):
            sizes = f"{len(states)} states, {len(actions)} actions and {len(rewards)} rewards"
            raise InvalidParameter(
                f"an episode has an action and a reward for each step, and one more state than steps, got {sizes}"
            )
        return self.body(states, actions, rewards)

    def _sent(self, stored: Mapping[str, Any]) -> str:
        """The stored report, until it is answered; then it is deleted: it may be somebody's data."""
        headers = {"Idempotency-Key": stored["nonce"], "Content-Type": "application/json"}
        answer = self._retried("POST", "reports", headers, base64.b64decode(stored["sent"]))
        refused = (answer.status, refusal(answer))
        if answer.status in (200, 201):
            outcome = _outcome(answer)
        elif answer.status == 410:
            outcome = "another-round" if refused[1] == "another-round" else "late"
        elif refused in FINAL_REFUSALS:
            outcome = "refused"
        else:
            raise ServiceRefused(*refused)
        with self._turn() as kept:
            for name in ("sent", "nonce", "refused"):
                kept.pop(name, None)
            kept["outcome"] = outcome
            if outcome == "refused":
                kept["refused"] = list(refused)
        return outcome

    def body(self, states: Sequence[Any], actions: Sequence[Any], rewards: Sequence[Any]) -> bytes:
        """The bytes of a report. Under local privacy each call draws noise: `report` calls it once."""
        assert self.round is not None and self.manifest is not None
        if self.manifest["promise"]["trust"] != "local":
            return joint_body(
                self.round.generation,
                self._subject,
                (states, actions, rewards),
                self.round.document["round"],
                self.manifest["problem"]["horizon"],
            )
        message = base64.b64encode(self._message(states, actions, rewards)).decode()
        return canonical(
            {"subject": self._subject, "generation": self.round.generation, "message": message}
        )

    def _message(
        self, states: Sequence[Any], actions: Sequence[Any], rewards: Sequence[Any]
    ) -> bytes:
        """With noise that keeps what this person accepts, or none is sent."""
        assert self.round is not None
        channel, statistic = self.round.document["channel"], self.round.document["statistic"]
        if channel["source"] != self._source.name:
            raise PromiseBroken(
                f"the run wants {channel['source']} noise, and this device has {self._source.name}"
            )
        mechanism = mechanism_of(channel, statistic, self._accepts.epsilon, self._accepts.delta)
        steps = contribution(statistic, channel, (states, actions, rewards))
        return message(
            channel,
            mechanism,
            steps,
            self.round.generation,
            self.round.document["round"],
            self._source,
        )

    # sending

    def _get(self, path: str) -> HttpResponse:
        answer = self._retried("GET", path, {}, None)
        if answer.status != 200:
            raise ServiceRefused(answer.status, refusal(answer))
        return answer

    def _retried(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpResponse:
        full = (
            {"Authorization": f"Bearer {self._api_key}", **headers}
            if method == "POST"
            else dict(headers)
        )
        return retried(self._send, (method, f"{self._base}/{path}", full, body), self._sleep)

    # the store

    @contextmanager
    def _turn(self) -> Iterator[dict[str, Any]]:
        """What is kept, read again, for this device alone. What is changed is durable when the block ends; after an error nothing is."""
        with self._lock:
            if self._path is None:
                if os.getpid() != self._process:
                    raise PrivacyError(
                        "a device without a store was copied by a fork, and both copies would noise the same data: give it a store"
                    )
                kept = dict(self._kept)
                yield kept
                self._kept = kept
                return
            handle = open_lock(self._path.with_name(self._path.name + ".lock"))
            try:
                lock(handle)
                self._read_store()
                kept = dict(self._kept)
                yield kept
                if kept != self._kept or not self._path.exists():
                    replace(self._path, json.dumps(kept).encode(), mode=0o600)
                self._kept = kept
            finally:
                os.close(handle)

    def _read_store(self) -> None:
        if self._path is None or not self._path.exists():
            return
        try:
            kept = json.loads(self._path.read_bytes())
            same_person = hmac.compare_digest(kept["person"], _salted(kept["salt"], self._subject))
            whole_store = type(kept["which"]) is int and type(kept.get("generation", 0)) is int
            whole_store &= all(type(kept.get(name, "")) is str for name in _TEXTS)
            if "refused" in kept or kept.get("outcome") == "refused":
                whole_store &= kept.get("outcome") == "refused"
                whole_store &= tuple(kept["refused"]) in FINAL_REFUSALS
        except (ValueError, KeyError, TypeError, AttributeError):
            whole_store = False
        if not whole_store:
            raise StateError("the store is damaged: it is not that of a device")
        if kept.get("run", self.run) != self.run:
            raise StateError("the store is of a device in another run")
        if not same_person:
            raise StateError(
                "the store is of another person: give each person a store of their own"
            )
        self._kept = kept


def _salted(salt: str, subject: str) -> str:
    """By which a store recognizes its person without their name in clear."""
    return hmac.new(
        salt.encode(), subject.encode("utf-8", "surrogatepass"), hashlib.sha256
    ).hexdigest()


def act(policy: Mapping[str, Any], step: int, state: Any) -> Any:
    """The action of a policy of a round; where it is random, by the system's entropy."""
    match policy["kind"]:
        case "tabular":
            actions = policy["actions"][_index("step", step, policy["actions"])]
            return actions[_index("state", state, actions)]
        case "stochastic":
            table = policy["weights"][_index("step", step, policy["weights"])]
            weights = table[_index("state", state, table)]
            return random.SystemRandom().choices(range(len(weights)), weights)[0]
        case "random":
            return secrets.randbelow(policy["choices"])
        case "linear":
            gains = policy["gains"][_index("step", step, policy["gains"])]
            return (np.asarray(gains) @ np.asarray(state, dtype=float)).tolist()
        case "context":
            contexts = np.asarray(state, dtype=float)
            scores = contexts @ np.asarray(policy["weights"])
            if policy["widths"] is not None:
                scores = scores + np.linalg.norm(contexts @ np.asarray(policy["widths"]).T, axis=-1)
            return int(scores.argmax())
    raise InvalidParameter(f"this client knows no policy of kind {policy['kind']!r}")


def _index(name: str, value: Any, rows: Sequence[Any]) -> int:
    """An index of `rows`. A negative one is an error: Python would count it from the end."""
    return whole(name, value, at_least=0, at_most=len(rows) - 1)


def _drawn(document: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """The policy of a device that drew this number out of 2^128, as `Round.draw_policy` takes it."""
    edges = np.cumsum(document["shares"])
    found: Mapping[str, Any] = document["policies"][
        int(np.searchsorted(edges[:-1], number / 2.0**128 * edges[-1], side="right"))
    ]
    return found


def _of_manifest(run: str, body: bytes) -> bytes:
    return Statement("manifest", run, "", 0, digest(body)).to_bytes()


def _header(answer: HttpResponse, name: str) -> str:
    value = answer.headers.get(name)
    if not isinstance(value, str) or not _HEADERS[name].fullmatch(value):
        raise SignatureError(f"the answer has no valid header {name}")
    return value


def _outcome(answer: HttpResponse) -> str:
    given = fields("the answer to a report", parse_json("the answer to a report", answer.body))
    return one_of("outcome", given.get("outcome"), ("counted", "same"))


__all__ = [
    "Accepts",
    "Device",
    "FastSource",
    "HttpResponse",
    "ServedRound",
    "ServiceRefused",
    "act",
    "over_http",
]
