"""Check a service from outside, as anybody can: signatures, the chain of all releases, and the arithmetic of the certificate."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

from confide.arguments import text
from confide.audit.verify import verify
from confide.errors import ConfideError, InvalidParameter, SignatureError
from confide.privacy.certificate import Certificate, check_schema
from confide.service.core.spec import NAME
from confide.service.core.verification import Found, check_kept
from confide.service.device.transport import HttpResponse, Send, ServiceRefused, over_http
from confide.service.documents import (
    Statement,
    check_chain,
    check_signature,
    digest,
    key_id,
)


def check_public(
    url: str, run: str, *, key: str | None = None, send: Send | None = None
) -> Iterator[Found]:
    """`key`: the run's first signing key, 64 hexadecimal digits, known by another way. Without it the manifest's own is believed.

    The first check that does not hold is the last one: what comes after it would stand on it.
    """
    check_address(url, run)
    checks = _Checks(f"{url.rstrip('/')}/v1/runs/{run}", run, key, send or over_http())
    for about in ("manifest", "keys", "certificate", "releases"):
        try:
            yield Found(f"{run}: {about}", True, getattr(checks, about)())
        except ConfideError as error:
            yield Found(f"{run}: {about}", False, str(error))
            return
        except (OSError, http.client.HTTPException) as error:
            yield Found(
                f"{run}: {about}",
                False,
                f"the service could not be reached ({type(error).__name__})",
            )
            return
        # a server may say anything
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            yield Found(
                f"{run}: {about}",
                False,
                f"the service said something else than a document ({type(error).__name__})",
            )
            return


def check_address(url: str, run: str) -> None:
    if not text("url", url).startswith(("http://", "https://")) or not url.isascii() or " " in url:
        raise InvalidParameter("url must begin with http:// or https://")
    if not NAME.fullmatch(text("run", run)):
        raise InvalidParameter(f"there can be no run {run!r}")


class _Checks:
    def __init__(self, base: str, run: str, key: str | None, send: Send) -> None:
        self._base, self._run, self._pinned, self._send = base, run, key, send
        self._told: dict[str, Any] = {}
        self._digest, self._keys = "", dict[str, bytes]()

    def _get(self, path: str) -> HttpResponse:
        answer = self._send("GET", f"{self._base}/{path}", {}, None)
        if answer.status != 200:
            missing = answer.status == 404 and path == "manifest"
            raise ServiceRefused(
                answer.status,
                path,
                f"answered 404: it has no run {self._run!r}" if missing else None,
            )
        return answer

    def manifest(self) -> str:
        answer = self._get("manifest")
        self._told, self._digest = json.loads(answer.body), digest(answer.body)
        public = self._told["key"]["public"]
        if self._pinned is not None and public != self._pinned.lower():
            raise SignatureError(
                "the manifest names another signing key than the one that was given"
            )
        statement = Statement("manifest", self._run, "", 0, self._digest)
        check_signature(
            bytes.fromhex(public),
            bytes.fromhex(answer.headers["confide-signature"]),
            statement.to_bytes(),
        )
        if self._told["run"] != self._run:
            raise SignatureError("the manifest is of another run")
        # The name is computed from the key, because the manifest could give it any other.
        name = key_id(bytes.fromhex(public))
        return f"signed by {name}{'' if self._pinned else ', which was believed: pass --key to pin it'}"

    def keys(self) -> str:
        known = json.loads(self._get("keys").body)["keys"]
        self._keys = check_chain(known, bytes.fromhex(self._told["key"]["public"]))
        return f"{len(self._keys)}, each endorsed by one before it"

    def certificate(self) -> str:
        body = self._get("certificate").body
        if digest(body) != self._told["certificate"]:
            raise SignatureError("the certificate is not the one that the manifest names")
        document, promised = json.loads(body), self._told["promise"]
        check_schema(document)
        found = verify(Certificate(document))
        check_kept(found, document["guarantee"], self._told)
        simulated = "; SIMULATION: fast noise" if self._told["simulation"] else ""
        return f"epsilon = {found.epsilon:.6g}, promised {promised['epsilon']:g} at delta = {promised['delta']:g}{simulated}"

    def releases(self) -> str:
        newest, previous = int(self._get("release").headers["confide-generation"]), self._digest
        for generation in range(newest + 1):
            answer = self._get(f"release/{generation}")
            statement = Statement(
                "release", self._run, self._digest, generation, digest(answer.body), previous
            )
            public = self._keys.get(answer.headers["confide-key"])
            if public is None:
                raise SignatureError(
                    f"release {generation} is signed by a key that is none of the run's"
                )
            try:
                check_signature(
                    public, bytes.fromhex(answer.headers["confide-signature"]), statement.to_bytes()
                )
            except SignatureError:
                raise SignatureError(
                    f"release {generation} is not signed, or does not follow the one before it"
                ) from None
            previous = statement.digest
        return f"{newest + 1}, signed and chained; the newest is {previous}"
