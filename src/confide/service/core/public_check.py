"""A check of a service from outside, as anybody can make it.

It checks the signatures, the chain of all releases, and the arithmetic of the certificate. The
server may be hostile: everything that it says is checked before it is believed, and no answer makes
the check fail in another way than by saying what does not hold.
"""

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any

from confide.arguments import text
from confide.audit.verify import verify
from confide.errors import ConfideError, InvalidParameter, SignatureError
from confide.privacy.certificate import Certificate, check_schema
from confide.service.core.spec import NAME
from confide.service.core.verification import CheckResult, check_promise
from confide.service.device.transport import HttpResponse, Send, ServiceRefused, over_http
from confide.service.documents import (
    Statement,
    check_key_chain,
    check_signature,
    digest,
    key_id,
)


def check_public(
    url: str, run: str, *, key: str | None = None, send: Send | None = None
) -> Iterator[CheckResult]:
    """Check a run of a service.

    `key` is the run's first signing key in 64 hexadecimal digits, which is known by another way.
    Without it the manifest's own key is believed. The first check that does not hold is the last
    one, because what comes after it would stand on it.
    """
    check_address(url, run)
    checks = _PublicChecks(f"{url.rstrip('/')}/v1/runs/{run}", run, key, send or over_http())
    for about, check in checks.all.items():
        result = _run_check(f"{run}: {about}", check)
        yield result
        if not result.holds:
            return


def _run_check(about: str, check: Callable[[], str]) -> CheckResult:
    try:
        return CheckResult(about, True, check())
    except ConfideError as error:
        return CheckResult(about, False, str(error))
    except (OSError, http.client.HTTPException) as error:
        says = f"the service could not be reached ({type(error).__name__})"
        return CheckResult(about, False, says)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        # A server may say anything.
        says = f"the service said something else than a document ({type(error).__name__})"
        return CheckResult(about, False, says)


def check_address(url: str, run: str) -> None:
    """Refuse what can be no address of a service, or no name of a run."""
    if not text("url", url).startswith(("http://", "https://")) or not url.isascii() or " " in url:
        raise InvalidParameter(f"url must begin with http:// or https://, got url={url!r}")
    if not NAME.fullmatch(text("run", run)):
        raise InvalidParameter(
            "run must be lower-case letters, digits and dashes, at most 63 of them, "
            f"got run={run!r}"
        )


class _PublicChecks:
    """The checks of one run, in their order. Each uses what the ones before it have checked."""

    def __init__(self, base: str, run: str, key: str | None, send: Send) -> None:
        self._base = base
        self._run = run
        self._pinned_key = key
        self._send = send
        self._manifest: dict[str, Any] = {}
        self._manifest_digest = ""
        self._keys: dict[str, bytes] = {}
        self.all: dict[str, Callable[[], str]] = {
            "manifest": self._check_manifest,
            "keys": self._check_keys,
            "certificate": self._check_certificate,
            "releases": self._check_releases,
        }

    def _get(self, path: str) -> HttpResponse:
        answer = self._send("GET", f"{self._base}/{path}", {}, None)
        if answer.status != 200:
            what = None
            if answer.status == 404 and path == "manifest":
                what = f"answered 404: it has no run {self._run!r}"
            raise ServiceRefused(answer.status, path, what)
        return answer

    def _check_manifest(self) -> str:
        answer = self._get("manifest")
        self._manifest = json.loads(answer.body)
        self._manifest_digest = digest(answer.body)
        public = self._manifest["key"]["public"]
        if self._pinned_key is not None and public != self._pinned_key.lower():
            raise SignatureError(
                "the manifest names another signing key than the one that was given"
            )
        statement = Statement("manifest", self._run, "", 0, self._manifest_digest)
        signature = bytes.fromhex(answer.headers["confide-signature"])
        check_signature(bytes.fromhex(public), signature, statement.to_bytes())
        if self._manifest["run"] != self._run:
            raise SignatureError("the manifest is of another run")
        # The name is computed from the key, because the manifest could give it any other.
        name = key_id(bytes.fromhex(public))
        believed = "" if self._pinned_key else ", which was believed: pass --key to pin it"
        return f"signed by {name}{believed}"

    def _check_keys(self) -> str:
        keys = json.loads(self._get("keys").body)["keys"]
        trusted = bytes.fromhex(self._manifest["key"]["public"])
        self._keys = check_key_chain(keys, trusted)
        return f"{len(self._keys)}, each endorsed by one before it"

    def _check_certificate(self) -> str:
        body = self._get("certificate").body
        if digest(body) != self._manifest["certificate"]:
            raise SignatureError("the certificate is not the one that the manifest names")
        document = json.loads(body)
        check_schema(document)
        verification = verify(Certificate(document))
        check_promise(verification, document["guarantee"], self._manifest)
        promise = self._manifest["promise"]
        simulation = "; SIMULATION: fast noise" if self._manifest["simulation"] else ""
        return (
            f"epsilon = {verification.epsilon:.6g}, promised {promise['epsilon']:g} "
            f"at delta = {promise['delta']:g}{simulation}"
        )

    def _check_releases(self) -> str:
        newest = int(self._get("release").headers["confide-generation"])
        previous = self._manifest_digest
        for generation in range(newest + 1):
            previous = self._check_release(generation, previous)
        return f"{newest + 1}, signed and chained; the newest is {previous}"

    def _check_release(self, generation: int, previous: str) -> str:
        """Check one release, and return the digest of its statement."""
        answer = self._get(f"release/{generation}")
        statement = Statement(
            kind="release",
            run=self._run,
            manifest=self._manifest_digest,
            generation=generation,
            body=digest(answer.body),
            previous=previous,
        )
        public = self._keys.get(answer.headers["confide-key"])
        if public is None:
            raise SignatureError(
                f"release {generation} is signed by a key that is none of the run's"
            )
        signature = bytes.fromhex(answer.headers["confide-signature"])
        try:
            check_signature(public, signature, statement.to_bytes())
        except SignatureError:
            raise SignatureError(
                f"release {generation} is not signed, or does not follow the one before it"
            ) from None
        return statement.digest
