"""What an estimator publishes: values, the public scale of their noise, and their guarantee.

A `ValueEstimate` leaves the process in three ways. `to_bytes` is what a ledger stores and hands out
again, `save` writes it to a folder, and the intervals are printed. The names of the arrays and of
the facts in `to_bytes` are therefore a file format: a change needs a new `_FORMAT`. Everything that
is computed here uses released numbers only. It is post-processing, and may be changed without
touching a guarantee.
"""

import io
import json
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from confide import arguments
from confide._durable import output, replace_files
from confide.arguments import real
from confide.errors import InvalidParameter, StateError
from confide.evaluation.policy_values import PolicyValues
from confide.evaluation.skewness import reach_beyond_normal
from confide.privacy.bounded import Array
from confide.privacy.certificate import Certificate
from confide.privacy.guarantee import Guarantee
from confide.release.value import NO_VALUE, Ratio, Value, quantile, value_with

_FORMAT = "confide-estimate/4"
# What the names of the arrays of `released` begin with in the archive.
_RELEASED = "released."
# What NumPy, zip and JSON raise where a file is not what it should be.
DAMAGED = (
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    NotImplementedError,
    SyntaxError,
    tokenize.TokenError,
)
# The released arrays [s] from which Fieller's interval of a state follows.
_RATIO_ARRAYS = ("counts", "sums", "count_std", "sum_std", "sampling_variance")


@dataclass(frozen=True, slots=True, eq=False)
class ValueEstimate:
    """PUBLIC: the values of a policy in every state, [s], and the guarantee that covers all of it.

    - `noise_std` [s] is the standard deviation that privacy added. It is None where it depends on
      the data (smooth sensitivity), because it is then as private as they are.
    - `lowest` and `highest` are the public range of a return.
    - `parameters` [d] are those of linear features, where there are any.
    - `released` holds the noisy numbers themselves. Anybody may compute something else from them:
      this is post-processing, and costs no privacy.
    """

    values: Array
    noise_std: Array | None
    guarantee: Guarantee
    certificate: Certificate | None
    lowest: float
    highest: float
    parameters: Array | None = None
    released: Mapping[str, Array] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        # States that were left out of the fit have no value.
        values = self.values[~np.isnan(self.values)]
        lowest = values.min()
        count = len(values)
        if count == 1:
            summary = f"1 value, {lowest:.3g}"
        else:
            summary = f"{count} values from {lowest:.3g} to {values.max():.3g}"
        return f"ValueEstimate({summary}; {self.guarantee})"

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Bounds [s] that each contain the true value with this probability.

        They cover noise and sampling together. The variance of sampling comes from released second
        moments. Where second moments of single states were released, an interval reaches farther on
        the side of the longer tail of the returns (`skewness.py`).
        """
        real("level", level, above=0, below=1)
        z = quantile(level, self.guarantee)
        policies = self.policy_values
        if policies is not None and policies.moments is not None:
            low, high = policies.interval(0, z)
            return np.minimum(low, self.values), np.maximum(high, self.values)
        if any(name not in self.released for name in _RATIO_ARRAYS):
            raise InvalidParameter(
                "this estimate has no intervals: the released numbers do not determine its error, "
                "and the error depends on private data"
            )
        scaled_low, scaled_high = self._scaled_interval(z)
        centre = (self.highest + self.lowest) / 2
        radius = (self.highest - self.lowest) / 2
        return centre + radius * scaled_low, centre + radius * scaled_high

    def _scaled_interval(self, z: float) -> tuple[Array, Array]:
        """Fieller's interval of every state, for returns scaled to [-1, 1], with room for skewness.

        It holds all v for which b - v n is within z standard deviations of zero, where b and n are
        the released sum and count. Unlike a standard error it holds however small the count is.
        Where the count may be zero it is the whole range.
        """
        n, b, n_std, b_std, sampling = (self.released[name] for name in _RATIO_ARRAYS)
        square = n**2 - z**2 * n_std**2
        variance = b_std**2 + sampling
        bounded = (square > 0) & np.isfinite(variance)
        divisor = np.where(bounded, square, 1.0)
        discriminant = np.where(bounded, variance, 0.0) * square + n_std**2 * b**2
        root = z * np.sqrt(np.maximum(discriminant, 0.0))
        low = (b * n - root) / divisor
        high = (b * n + root) / divisor
        if "squares" in self.released:
            below, above = reach_beyond_normal(n, b, self.released["squares"], z)
            low = low - below
            high = high + above
        low = np.where(bounded, np.clip(low, -1.0, 1.0), -1.0)
        high = np.where(bounded, np.clip(high, -1.0, 1.0), 1.0)
        return low, high

    @property
    def policy_values(self) -> PolicyValues | None:
        """The released rows of weighted returns, if there are any."""
        if "row" not in self.released:
            return None
        return PolicyValues.of(self.released, self.guarantee.users)

    @property
    def logged(self) -> Ratio | None:
        """The value of the policy that made the log, if it was released."""
        if "logged" in self.released:
            return Ratio.of(self.released["logged"])
        policies = self.policy_values
        return None if policies is None else policies.ratio(policies.logged)

    def logged_value(self, level: float = 0.9) -> Value:
        """The value of the policy that made the log, with an interval at this level."""
        ratio = self.logged
        if ratio is None:
            return NO_VALUE
        low, high = ratio.interval(quantile(level, self.guarantee))
        return value_with(ratio.value, low, high, self.lowest, self.highest)

    def difference(self, level: float = 0.9) -> Value:
        """The value of the target minus that of the policy that it is compared with.

        This is the policy `against`, or the logged policy if none was given.
        """
        policies = self.policy_values
        if policies is None:
            return NO_VALUE
        other = 1 if policies.policies > 1 else None
        if other is None:
            compared = policies.ratio(policies.logged).value
        else:
            compared = policies.value(other)[0]
        difference = policies.value(0)[0] - compared
        if policies.moments is None:
            return Value(difference)
        low, high = policies.difference_interval(0, other, quantile(level, self.guarantee))
        width = self.highest - self.lowest
        return value_with(difference, min(low, difference), max(high, difference), -width, width)

    @property
    def clipped_share(self) -> float | None:
        """How much of the importance weights the clip took off, from noisy sums.

        It is 0 where no weight was above the clip, and None where there are no weights.
        """
        policies = self.policy_values
        if policies is None or policies.per_decision:
            return None
        above, noise = policies.above(0)
        if above <= noise:
            return 0.0
        weight = policies.ratio(policies.weight(0), 0.0, policies.clip).value
        return float(np.clip(1 - weight, 0.0, 1.0))

    @property
    def effective_users(self) -> float | None:
        """About how many users with equal weights would tell as much.

        None where there are no weights, or no intervals.
        """
        policies = self.policy_values
        return None if policies is None else policies.effective_users(0)

    def to_bytes(self) -> bytes:
        """Everything, as a NumPy archive without pickles. This is what a ledger stores."""
        facts: dict[str, Any] = {
            "format": _FORMAT,
            "guarantee": self.guarantee.to_json(),
            "range": [self.lowest, self.highest],
            "certificate": self.certificate.document if self.certificate else None,
        }
        arrays = {"values": self.values}
        for name, array in self.released.items():
            arrays[_RELEASED + name] = array
        if self.noise_std is not None:
            arrays["noise_std"] = self.noise_std
        if self.parameters is not None:
            arrays["parameters"] = self.parameters
        buffer = io.BytesIO()
        arrays_and_facts: dict[str, Any] = {
            "facts": np.array(json.dumps(facts, allow_nan=False)),
            **arrays,
        }
        np.savez(buffer, **arrays_and_facts)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "ValueEstimate":
        """The estimate that `to_bytes` wrote. Other bytes raise a `StateError`."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            facts = json.loads(str(arrays.pop("facts")))
            if facts["format"] != _FORMAT:
                raise StateError(
                    f"the estimate has format {facts['format']}, "
                    f"this version of confide reads {_FORMAT}"
                )
            released = {
                name.removeprefix(_RELEASED): array
                for name, array in arrays.items()
                if name.startswith(_RELEASED)
            }
            lowest, highest = facts["range"]
            return cls(
                values=arrays["values"],
                noise_std=arrays.get("noise_std"),
                guarantee=Guarantee.from_json(facts["guarantee"]),
                certificate=Certificate(facts["certificate"]) if facts["certificate"] else None,
                lowest=lowest,
                highest=highest,
                parameters=arrays.get("parameters"),
                released=released,
            )
        except DAMAGED as error:
            raise StateError(
                f"this is not a saved estimate, or it is damaged or cut off: {type(error).__name__}"
            ) from None

    def save(self, folder: str | Path) -> None:
        """Write `estimate.npz`, and `certificate.json` if there is one. Both are public."""
        where = Path(arguments.path("folder", folder))
        with output(where), replace_files(where, last="estimate.npz") as target:
            if self.certificate:
                self.certificate.save(target / "certificate.json")
            (target / "estimate.npz").write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "ValueEstimate":
        """Read an estimate from the folder that it was saved in, or from its `estimate.npz`."""
        place = Path(arguments.path("path", path))
        file = place / "estimate.npz" if place.is_dir() else place
        try:
            return cls.from_bytes(arguments.regular_file(file).read_bytes())
        except OSError as error:
            raise StateError(f"cannot read an estimate from {path}: {error.strerror}") from None
