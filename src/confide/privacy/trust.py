"""Which data sets are neighbours, and whom users trust."""

import enum


class Relation(enum.StrEnum):
    """Which streams are neighbours. The unit is always one user's whole trajectory."""

    NULL = "null"  # the user contributes zero, and keeps the slot in the stream
    REPLACE = "replace"  # the user is somebody else


class Trust(enum.StrEnum):
    """Whom a user must trust with raw data, and against whom the guarantee holds."""

    NONE = "none"  # no promise
    CENTRAL = "central"  # the curator sees the data; what is published protects the user
    JOINT = "joint"  # the curator sees the data; what all OTHER users see protects the user
    LOCAL = "local"  # nobody but the user's own device sees the data
    # nobody but the user's own device sees the data, and the server sees sums of many devices only
    DISTRIBUTED = "distributed"

    @property
    def devices(self) -> bool:
        """Whether users send messages from their own devices, so that no server sees a contribution."""
        return self in (Trust.LOCAL, Trust.DISTRIBUTED)
