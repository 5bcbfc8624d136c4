"""What a service signs, as bytes that everybody can check: manifests, releases and rounds.

A statement names the run, its manifest, a generation and the digest of a body. Statements of
releases are chained: each names the digest of the one before it, and the first one that of the
manifest. The signature is about the statement and stands beside the body, not in it.

The bytes of a statement are a format (`STATEMENT_FORMAT`). Devices, the check from outside and
clients/typescript compute them again, and old releases are signed with them: nothing in
`Statement.to_bytes` may change. Names of classes and fields may, because the bytes name neither.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confide.errors import InvalidParameter, MissingExtra, SignatureError

STATEMENT_FORMAT = "confide-statement/1"
# The id of a key has so many hexadecimal digits of its digest. An id only finds a key: signatures
# are checked with the whole key. A matter of taste, and part of the format.
KEY_ID_DIGITS = 16


def canonical(document: Mapping[str, Any]) -> bytes:
    """Return a JSON document as RFC 8785 writes it: the same document has the same bytes."""
    try:
        import rfc8785
    except ImportError:
        raise missing_packages() from None
    try:
        return rfc8785.dumps(dict(document))
    except rfc8785.CanonicalizationError as error:
        raise InvalidParameter(f"the document cannot be written as JSON: {error}") from None


def digest(data: bytes) -> str:
    """Return SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Statement:
    """What is signed of a body.

    `kind` is manifest, release, round, or key (the endorsement of a newer key). `manifest` is the
    digest of the run's manifest, and empty in the statement of the manifest itself. `body` is the
    digest of the bytes that are shown. `previous` is the digest of the statement before it, in
    statements of releases.
    """

    kind: str
    run: str
    manifest: str
    generation: int
    body: str
    previous: str = ""

    def to_bytes(self) -> bytes:
        return canonical(
            {
                "format": STATEMENT_FORMAT,
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
    """A release and its signature. Public.

    `users` is how many users its batch has, `previous` the digest of the statement before it, and
    `digest` that of its own statement.
    """

    run: str
    generation: int
    body: bytes = field(repr=False)
    users: int
    previous: str
    digest: str
    signature: bytes
    key: str

    def statement(self, manifest: str) -> Statement:
        """Return what is signed of the release. `manifest` is the digest of the run's manifest."""
        return Statement(
            kind="release",
            run=self.run,
            manifest=manifest,
            generation=self.generation,
            body=digest(self.body),
            previous=self.previous,
        )


class SigningKey:
    """An Ed25519 key. PRIVATE, but for `public` and `id`."""

    def __init__(self, secret: bytes) -> None:
        private_key = _ed25519().Ed25519PrivateKey
        self._key = private_key.from_private_bytes(secret)
        self.public: bytes = self._key.public_key().public_bytes_raw()

    @property
    def id(self) -> str:
        return key_id(self.public)

    def sign(self, data: bytes) -> bytes:
        return bytes(self._key.sign(data))


def key_id(public: bytes) -> str:
    """Return the name of a public key."""
    return digest(public)[:KEY_ID_DIGITS]


def check_signature(public: bytes, signature: bytes, data: bytes) -> None:
    """Raise `SignatureError` unless the key has signed these bytes."""
    from cryptography.exceptions import InvalidSignature

    try:
        _ed25519().Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        raise SignatureError(
            "the signature is not that of the run's key about these bytes"
        ) from None


def check_key_chain(keys: list[dict[str, str]], trusted: bytes) -> dict[str, bytes]:
    """Return the keys of a run by id: the trusted one, and those that a key before has endorsed.

    Any other key raises `SignatureError`.
    """
    checked = {key_id(trusted): trusted}
    for key in keys:
        public = bytes.fromhex(key["public"])
        if key_id(public) in checked:
            continue
        endorser = checked.get(key.get("endorsed_by", ""))
        if endorser is None:
            raise SignatureError("a key of the run was endorsed by none of its keys")
        check_signature(endorser, bytes.fromhex(key["endorsement"]), endorsement_bytes(public))
        checked[key_id(public)] = public
    return checked


def endorsement_bytes(public: bytes) -> bytes:
    """Return what an older key signs of a newer one."""
    return Statement("key", "", "", 0, digest(public)).to_bytes()


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise missing_packages() from None
    return ed25519


def missing_packages() -> MissingExtra:
    """Return the error about packages that a service needs and that are not installed."""
    return MissingExtra("a service needs more packages: pip install 'confide[service,secure]'")
