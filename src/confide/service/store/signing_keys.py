"""The signing keys of a service: the current one, and a new one that the current one endorses.

Everybody trusts the first key, and each later one because a key before it has endorsed it. So a new
key is always endorsed by the current one. The secrets are in files (`KeyFolder`), and the public
keys in the database.
"""

from confide.errors import StateError
from confide.service.documents import SigningKey, endorsement_bytes
from confide.service.store.interface import ServiceStore, SigningKeyRow
from confide.service.store.keys import KeyFolder


def current_key(store: ServiceStore, keys: KeyFolder) -> SigningKey:
    """Return the key that signs now."""
    current = [row.id for row in store.signing_keys() if not row.retired]
    if not current:
        raise StateError("the service has no signing key: confide service init makes one")
    return keys.signing_key(current[-1])


def rotate_signing_key(store: ServiceStore, keys: KeyFolder, actor: str, now: str) -> SigningKey:
    """Make a new key that signs from now on, and return it. The old one stays valid."""
    old_key = current_key(store, keys)
    new_key = keys.new_signing_key()
    with store.transaction() as tx:
        tx.add_signing_key(key_row(new_key, endorser=old_key))
        tx.audit(now, actor, "rotate", new_key.id)
    return new_key


def key_row(key: SigningKey, endorser: SigningKey | None) -> SigningKeyRow:
    """Return the row of a key. The first key has no endorser."""
    if endorser is None:
        return SigningKeyRow(key.id, key.public, endorsed_by="", endorsement=b"", retired=False)
    endorsement = endorser.sign(endorsement_bytes(key.public))
    return SigningKeyRow(key.id, key.public, endorser.id, endorsement, retired=False)
