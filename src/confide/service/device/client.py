"""A user's side of a service: verify what the service says, act by the round, report once.

It needs neither the planner nor the compiler nor OpenDP: rounds are plain tables, and noise is
drawn by whole numbers. Under local privacy the contribution becomes one message on this device.
Whatever tables the server sends, the message keeps the epsilon that the person accepts.

The service is not trusted. Everything that it sends is checked before it is used (`checks.py`), and
what is refused raises a `ConfideError`. What leaves this file is one report, whose bytes are the
same for every retry. Required for privacy: the order "store, then send" in `Device.report`, and the
checks of `Device.join` before anything is sent.
"""

import base64
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from confide.arguments import choice, flag, private_kind, real
from confide.errors import (
    AnotherRound,
    InvalidParameter,
    PrivacyError,
    PromiseBroken,
    SignatureError,
    StaleMessage,
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
from confide.service.device.policies import act, choose_policy
from confide.service.device.store import DeviceStore
from confide.service.device.transport import (
    FINAL_REFUSALS,
    HttpResponse,
    Send,
    ServiceRefused,
    over_http,
    refusal,
    send_with_retries,
)
from confide.service.documents import (
    Statement,
    canonical,
    check_key_chain,
    check_signature,
    digest,
)

# So many batches may close while a device joins. A matter of taste.
_JOIN_ATTEMPTS = 3
# An idempotency key has so many random bytes, so that two of them are never equal by chance.
_NONCE_BYTES = 24
# The headers of a signed document, and what they hold.
_HEADERS = {
    "confide-generation": re.compile("[0-9]{1,15}"),
    "confide-digest": re.compile("[0-9a-f]{64}"),
    "confide-previous": re.compile("[0-9a-f]{64}"),
    "confide-signature": re.compile("[0-9a-f]{128}"),
    "confide-key": re.compile("[0-9a-f]{16}"),
}


@dataclass(frozen=True, slots=True)
class Accepts:
    """What a person agrees to: a service that promises less is refused before anything is sent.

    `trust` local: nobody but this device sees the data. `simulation` says whether fast noise is
    acceptable. `relation` says between which inputs the outputs must be hard to tell apart: "null"
    compares a person's data with no data. It is weaker than "replace", which compares them with any
    other person's, so "null" also accepts "replace".
    """

    epsilon: float
    delta: float = 0.0
    trust: str = "joint"
    simulation: bool = False
    relation: str = "replace"

    def __post_init__(self) -> None:
        real("epsilon", self.epsilon, above=0, finite=False)
        real("delta", self.delta, at_least=0, at_most=1)
        choice("trust", self.trust, ("joint", "local"))
        flag("simulation", self.simulation)
        choice("relation", self.relation, ("replace", "null"))


@dataclass(frozen=True, slots=True)
class ServedRound:
    """How this person is served now: the generation, their policy, and the whole round document."""

    generation: int
    policy: Mapping[str, Any]
    document: Mapping[str, Any]


class Device:
    """One person's device in one run.

    `store` is a file. The message is in it before it is sent, so that a device that restarts sends
    the same bytes, and never noises its data twice. Any number of devices may share a store, in one
    process or in several: they take turns by a lock on a file beside it, and read it again before
    noise is drawn.

    A store belongs to one person in one run, and a device of another person is refused. For that
    the store has a salted hash of `subject`. Whoever holds the file can test whether it belongs to
    a person whose name they guess. A report that waits for its answer names the person.

    A device without a store cannot know of another one: keep one of them for a person, and make it
    after a fork, because a process that was forked is refused. `key` pins the run's signing key (64
    hexadecimal digits). Without it the first manifest that is seen is trusted, and kept in the
    store. A release that is older than the newest one seen, or another one of the same number, is
    refused.
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
        self.run = run
        self.manifest: dict[str, Any] | None = None
        self.round: ServedRound | None = None
        self._base = f"{url.rstrip('/')}/v1/runs/{run}"
        self._subject = subject
        self._api_key = api_key
        self._accepts = accepts
        self._pinned_key = key
        self._send = send or over_http()
        self._source = source or ExactSource()
        self._sleep = sleep
        self._store = DeviceStore(store, run=run, subject=subject)
        self._manifest_digest = ""
        # The public signing keys of the run that were verified, by id.
        self._keys: dict[str, bytes] = {}

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a device cannot be copied or pickled, because two copies would noise the same data "
            "twice: share a store"
        )

    # reading

    def join(self) -> ServedRound:
        """Verify the manifest, its promise, the current release and the round after it.

        Return how the person is served.
        """
        if self.manifest is None:
            self._read_manifest()
        assert self.manifest is not None
        release, generation, answer = self._read_release_and_round()
        statement = Statement(
            kind="round",
            run=self.run,
            manifest=self._manifest_digest,
            generation=generation,
            body=digest(answer.body),
            previous=_header(release, "confide-digest"),
        )
        self._check_signed(answer, statement)
        local = self.manifest["promise"]["trust"] == "local"
        body = parse_json("the round", answer.body)
        document = check_round(body, self.run, generation, local=local)
        policy = choose_policy(document, self._store.values["which"])
        self.round = ServedRound(generation, policy, document)
        return self.round

    def _read_release_and_round(
        self, attempts: int = _JOIN_ATTEMPTS
    ) -> tuple[HttpResponse, int, HttpResponse]:
        """Return the newest release, its generation, and the round after it.

        A batch may close between the two. Then both are read again.
        """
        release = self._get("release")
        generation = self._check_release(release)
        try:
            return release, generation, self._get(f"round/{generation}")
        except ServiceRefused as error:
            if error.status != 410 or attempts == 1:
                raise
        return self._read_release_and_round(attempts - 1)

    def _read_manifest(self) -> None:
        answer = self._get("manifest")
        manifest = check_manifest(parse_json("the manifest", answer.body))
        manifest_digest = digest(answer.body)
        public = bytes.fromhex(manifest["key"]["public"])
        expected_key = self._pinned_key or self._store.values.get("key")
        if expected_key is not None and public.hex() != expected_key:
            raise SignatureError(
                "the manifest is signed by another key than the one this device knows"
            )
        statement = Statement("manifest", self.run, "", 0, manifest_digest)
        signature = bytes.fromhex(_header(answer, "confide-signature"))
        check_signature(public, signature, statement.to_bytes())
        self._check_same_manifest(manifest, manifest_digest, self._store.values)
        self._check_promise(manifest)
        self._keys = self._read_keys(public)
        self.manifest = manifest
        self._manifest_digest = manifest_digest
        with self._store.turn() as values:
            # Another device of this store may have seen a manifest meanwhile.
            self._check_same_manifest(manifest, manifest_digest, values)
            values |= {"run": self.run, "key": public.hex(), "manifest": manifest_digest}

    def _check_same_manifest(
        self, manifest: Mapping[str, Any], manifest_digest: str, values: Mapping[str, Any]
    ) -> None:
        first_digest = values.get("manifest", manifest_digest)
        if manifest["run"] != self.run or manifest_digest != first_digest:
            raise SignatureError("the run has another manifest than the one this device knows")

    def _read_keys(self, trusted: bytes) -> dict[str, bytes]:
        keys = check_keys(parse_json("the list of keys", self._get("keys").body))
        return check_key_chain(keys, trusted)

    def _check_promise(self, manifest: Mapping[str, Any]) -> None:
        """Refuse a run that promises less than the person accepts."""
        promise = manifest["promise"]
        accepts = self._accepts
        if promise["epsilon"] > accepts.epsilon or promise["delta"] > accepts.delta:
            raise PromiseBroken(
                f"the run promises epsilon={promise['epsilon']:g}, delta={promise['delta']:g}, "
                f"and this person accepts epsilon={accepts.epsilon:g}, delta={accepts.delta:g}"
            )
        if accepts.trust == "local" and promise["trust"] != "local":
            raise PromiseBroken(
                "the run asks for raw data, and this person accepts local privacy only"
            )
        if accepts.relation == "replace" and promise["relation"] != "replace":
            raise PromiseBroken(
                "the run's guarantee compares a person's data with no data at all, which is weaker "
                "than a comparison with another person's data: whoever accepts it says so with "
                'relation="null"'
            )
        if manifest["simulation"] and not accepts.simulation:
            raise PromiseBroken(
                "the run is a simulation: somebody who knows the seed can subtract its noise"
            )

    def _check_release(self, release: HttpResponse) -> int:
        """Verify a release, compare it with those that were seen, and return its generation."""
        generation = int(_header(release, "confide-generation"))
        release_digest = _header(release, "confide-digest")
        previous = _header(release, "confide-previous")
        statement = Statement(
            kind="release",
            run=self.run,
            manifest=self._manifest_digest,
            generation=generation,
            body=digest(release.body),
            previous=previous,
        )
        self._check_signed(release, statement)
        with self._store.turn() as values:
            newest = values.get("generation", -1)
            newest_digest = values.get("digest", "")
            if generation < newest:
                raise SignatureError(
                    f"the service shows release {generation}, and this device has seen release "
                    f"{newest}"
                )
            if generation == newest and release_digest != newest_digest:
                raise SignatureError(f"the service shows two different releases {generation}")
            if generation == newest + 1 and newest_digest and previous != newest_digest:
                raise SignatureError(
                    f"release {generation} does not follow the one that this device has seen"
                )
            values |= {"generation": generation, "digest": release_digest}
        return generation

    def _check_signed(self, answer: HttpResponse, statement: Statement) -> None:
        """Refuse a document that no key of the run has signed."""
        name = _header(answer, "confide-key")
        if name not in self._keys:
            # There may be a new key, which a key that is known has endorsed.
            self._keys = self._read_keys(bytes.fromhex(self._store.values["key"]))
        if name not in self._keys:
            raise SignatureError("the document is signed by a key that is none of the run's")
        signature = bytes.fromhex(_header(answer, "confide-signature"))
        check_signature(self._keys[name], signature, statement.to_bytes())
        if statement.digest != _header(answer, "confide-digest"):
            raise SignatureError("the document has another digest than it says")

    # acting and reporting

    def act(self, step: int, state: Any) -> Any:
        """Return the action of this person's policy."""
        if self.round is None:
            self.join()
        assert self.round is not None
        return act(self.round.policy, step, state)

    def report(self, states: Sequence[Any], actions: Sequence[Any], rewards: Sequence[Any]) -> str:
        """Send one report about the episode: `counted`, or `same` if the service had it.

        The report is in the store until it is answered. Asked again before, the same bytes are
        sent, and after that nothing.

        `actions` and `rewards` have an entry for each step of the run's horizon; `states` has one
        more, the state after the last step. Steps after the horizon are left out. Steps that are
        missing, or have states that do not exist, contribute zero, without an error.

        `StaleMessage` if the release that the episode was planned with is closed: the data are not
        sent again. `ServiceRefused` if the service refuses the report. If it would refuse the same
        bytes each time, the report is deleted, and this store never sends another one, because a
        second noisy message would reveal more than the person accepts.
        """
        with self._store.turn() as values:
            if "sent" not in values and "outcome" not in values:
                body = self._episode_body(states, actions, rewards)
                values["sent"] = base64.b64encode(body).decode()
                values["nonce"] = secrets.token_urlsafe(_NONCE_BYTES)
        # The report is durable now, so it may be sent.
        outcome = self._send_report(values) if "sent" in values else "same"
        stored = self._store.values
        if "refused" in stored:
            raise ServiceRefused(*stored["refused"])
        if "late" in (outcome, stored["outcome"]):
            raise StaleMessage(
                "the release that the report was planned with is closed: it was not counted"
            )
        if "another-round" in (outcome, stored["outcome"]):
            raise AnotherRound(
                "the service has planned another round than the one that the report answers: "
                "it was not counted"
            )
        return outcome

    def _episode_body(
        self, states: Sequence[Any], actions: Sequence[Any], rewards: Sequence[Any]
    ) -> bytes:
        if self.round is None:
            raise InvalidParameter("a report is about an episode that was planned: call join first")
        if not len(states) - 1 == len(actions) == len(rewards):
            raise InvalidParameter(
                "an episode has an action and a reward for each step, and one more state than "
                f"steps, got {len(states)} states, {len(actions)} actions and "
                f"{len(rewards)} rewards"
            )
        return self.body(states, actions, rewards)

    def _send_report(self, stored: Mapping[str, Any]) -> str:
        """Send the stored report until it is answered, and return what became of it.

        Then it is deleted, because it may be somebody's data.
        """
        headers = {"Idempotency-Key": stored["nonce"], "Content-Type": "application/json"}
        answer = self._request("POST", "reports", headers, base64.b64decode(stored["sent"]))
        problem = (answer.status, refusal(answer))
        if answer.status in (200, 201):
            outcome = _outcome(answer)
        elif answer.status == 410:
            outcome = "another-round" if problem[1] == "another-round" else "late"
        elif problem in FINAL_REFUSALS:
            outcome = "refused"
        else:
            raise ServiceRefused(*problem)
        with self._store.turn() as values:
            for name in ("sent", "nonce", "refused"):
                values.pop(name, None)
            values["outcome"] = outcome
            if outcome == "refused":
                values["refused"] = list(problem)
        return outcome

    def body(self, states: Sequence[Any], actions: Sequence[Any], rewards: Sequence[Any]) -> bytes:
        """Return the bytes of a report.

        Under local privacy each call draws noise, so `report` calls it once.
        """
        assert self.round is not None and self.manifest is not None
        if self.manifest["promise"]["trust"] != "local":
            return joint_body(
                self.round.generation,
                self._subject,
                (states, actions, rewards),
                self.round.document["round"],
                self.manifest["problem"]["horizon"],
            )
        message_text = base64.b64encode(self._message(states, actions, rewards)).decode()
        return canonical(
            {
                "subject": self._subject,
                "generation": self.round.generation,
                "message": message_text,
            }
        )

    def _message(
        self, states: Sequence[Any], actions: Sequence[Any], rewards: Sequence[Any]
    ) -> bytes:
        """Return a message with noise that keeps what this person accepts.

        If the round's noise does not, this raises `PromiseBroken`, and nothing is sent.
        """
        assert self.round is not None
        channel = self.round.document["channel"]
        statistic = self.round.document["statistic"]
        if channel["source"] != self._source.name:
            raise PromiseBroken(
                f"the run wants {channel['source']} noise, and this device has {self._source.name}"
            )
        mechanism = mechanism_of(channel, statistic, self._accepts.epsilon, self._accepts.delta)
        return message(
            channel,
            mechanism,
            contribution(statistic, channel, (states, actions, rewards)),
            self.round.generation,
            self.round.document["round"],
            self._source,
        )

    # sending

    def _get(self, path: str) -> HttpResponse:
        answer = self._request("GET", path, {}, None)
        if answer.status != 200:
            raise ServiceRefused(answer.status, refusal(answer))
        return answer

    def _request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpResponse:
        all_headers = dict(headers)
        if method == "POST":
            # Reading needs no key.
            all_headers["Authorization"] = f"Bearer {self._api_key}"
        request = (method, f"{self._base}/{path}", all_headers, body)
        return send_with_retries(self._send, request, self._sleep)


def _header(answer: HttpResponse, name: str) -> str:
    value = answer.headers.get(name)
    if not isinstance(value, str) or not _HEADERS[name].fullmatch(value):
        raise SignatureError(f"the answer has no valid header {name}")
    return value


def _outcome(answer: HttpResponse) -> str:
    body = fields("the answer to a report", parse_json("the answer to a report", answer.body))
    return one_of("outcome", body.get("outcome"), ("counted", "same"))


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
