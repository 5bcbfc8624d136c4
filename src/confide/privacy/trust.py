"""Which data sets are neighbours, and whom users trust.

The values of both enumerations leave this file in certificates, ledgers, saved states and messages.
They must stay as they are. The words that people read are in `words.py`.
"""

import enum


class Relation(enum.StrEnum):
    """Which streams are neighbours. The unit is always one user's whole trajectory."""

    # The user contributes zero, and keeps the slot in the stream.
    NULL = "null"
    # The user is somebody else.
    REPLACE = "replace"


class Trust(enum.StrEnum):
    """Whom a user must trust with raw data, and against whom the guarantee holds."""

    # There is no guarantee.
    NONE = "none"
    # The curator sees the data. What is published protects the user.
    CENTRAL = "central"
    # The curator sees the data. What all OTHER users see protects the user.
    JOINT = "joint"
    # Nobody but the user's own device sees the data.
    LOCAL = "local"
    # Nobody but the user's own device sees the data. The server sees sums of many devices only.
    DISTRIBUTED = "distributed"

    @property
    def devices(self) -> bool:
        """Whether users send messages from their own devices, so no server sees a contribution."""
        return self in (Trust.LOCAL, Trust.DISTRIBUTED)
