"""The signing keys of a service: the current one, and a new one that the current one endorses."""

from confide.errors import StateError
from confide.service.documents import SigningKey, endorsed
from confide.service.store.interface import ServiceStore, SigningKeyRow
from confide.service.store.keys import KeyFolder


def current_key(store: ServiceStore, keys: KeyFolder) -> SigningKey:
    current = [row.id for row in store.signing_keys() if not row.retired]
    if not current:
        raise StateError("the service has no signing key: confide service init makes one")
    return keys.signing_key(current[-1])


def rotated(store: ServiceStore, keys: KeyFolder, actor: str, now: str) -> SigningKey:
    before, made = current_key(store, keys), keys.new_signing_key()
    with store.transaction() as tx:
        tx.add_signing_key(key_row(made, before))
        tx.audit(now, actor, "rotate", made.id)
    return made


def key_row(key: SigningKey, by: SigningKey | None) -> SigningKeyRow:
    endorsement = b"" if by is None else by.sign(endorsed(key.public))
    return SigningKeyRow(key.id, key.public, "" if by is None else by.id, endorsement, False)
