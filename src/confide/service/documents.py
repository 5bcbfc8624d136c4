"""What a service signs, as bytes that everybody can check: manifests, releases and rounds.

A statement names the run, its manifest, a generation and the digest of a body. Statements of releases are chained: each names the digest of
the one before it, and the first one that of the manifest. The signature is about the statement and stands beside the body, not in it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confide.errors import InvalidParameter, MissingExtra, SignatureError

KINDS = ("manifest", "release", "round", "key")


def canonical(document: Mapping[str, Any]) -> bytes:
    """A JSON document as RFC 8785 writes it: the same document has the same bytes."""
    try:
        import rfc8785
    except ImportError:
        raise missing() from None
    try:
        return rfc8785.dumps(dict(document))
    except rfc8785.CanonicalizationError as error:
        raise InvalidParameter(f"the document cannot be written as JSON: {error}") from None


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Statement:
    """What is signed of a body."""

    kind: str
    run: str
    manifest: str  # its digest; of the manifest itself, empty
    generation: int
    body: str  # the digest of the bytes that are shown
    previous: str = ""  # the digest of the statement before, of releases

    def to_bytes(self) -> bytes:
        return canonical(
            {
                "format": "confide-statement/1",
                "kind": self.kind,
                "run": self.run,
                "manifest": self.manifest,
                "generation": self.generation,
                "body": self.body,
                "previous": self.previous,
            }
        )

    @property
    def digest(self) -> str:
        return digest(self.to_bytes())


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """A release and its signature. Public."""

    run: str
    generation: int
    body: bytes = field(repr=False)
    users: int  # that are in its batch
    previous: str  # the digest of the statement before
    digest: str  # of its own statement
    signature: bytes
    key: str

    def statement(self, manifest: str) -> Statement:
        return Statement(
            "release", self.run, manifest, self.generation, digest(self.body), self.previous
        )


class SigningKey:
    """An Ed25519 key. PRIVATE, but for `public` and `id`."""

    def __init__(self, secret: bytes) -> None:
        private = _ed25519().Ed25519PrivateKey
        self._key = private.from_private_bytes(secret)
        self.public: bytes = self._key.public_key().public_bytes_raw()

    @property
    def id(self) -> str:
        return key_id(self.public)

    def sign(self, data: bytes) -> bytes:
        return bytes(self._key.sign(data))


def key_id(public: bytes) -> str:
    return digest(public)[:16]


def check_signature(public: bytes, signature: bytes, data: bytes) -> None:
    from cryptography.exceptions import InvalidSignature

    try:
        _ed25519().Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        raise SignatureError(
            "the signature is not that of the run's key about these bytes"
        ) from None


def check_chain(keys: list[dict[str, str]], trusted: bytes) -> dict[str, bytes]:
    """The keys of a run by id: the trusted one, and those that a key before them has endorsed."""
    found = {key_id(trusted): trusted}
    for key in keys:
        public = bytes.fromhex(key["public"])
        if key_id(public) in found:
            continue
        by = found.get(key.get("endorsed_by", ""))
        if by is None:
            raise SignatureError("a key of the run was endorsed by none of its keys")
        check_signature(by, bytes.fromhex(key["endorsement"]), endorsed(public))
        found[key_id(public)] = public
    return found


def endorsed(public: bytes) -> bytes:
    """What an older key signs of a newer one."""
    return Statement("key", "", "", 0, digest(public)).to_bytes()


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise missing() from None
    return ed25519


def missing() -> MissingExtra:
    return MissingExtra("a service needs more packages: pip install 'confide[service,secure]'")
