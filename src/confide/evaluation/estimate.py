"""What an estimator publishes: values, the scale of their noise where it is public, and their guarantee."""

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
from confide.privacy.bounded import Array
from confide.privacy.certificate import Certificate
from confide.privacy.guarantee import Guarantee
from confide.release.value import NO_VALUE, Ratio, Value, quantile, value_with

_FORMAT = "confide-estimate/4"
# what NumPy, zip and JSON raise where a file is not what it should be
_NO_FILE = OSError, EOFError, zipfile.BadZipFile, zlib.error, struct.error
DAMAGED = (
    *_NO_FILE,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    NotImplementedError,
    SyntaxError,
    tokenize.TokenError,
)
_RATIO = ("counts", "sums", "count_std", "sum_std", "sampling_variance")


@dataclass(frozen=True, slots=True, eq=False)
class ValueEstimate:
    """PUBLIC: the values of a policy in every state, [s], with the guarantee that covers all of it, read together.

    `noise_std` [s] is the standard deviation that privacy added; None where it depends on the data (smooth sensitivity), because then it
    is as private as they are. `parameters` [d] are those of linear features, where there are any. `released` holds the noisy numbers
    themselves, from which anybody may compute something else: that is post-processing, and costs nothing.
    """

    values: Array
    noise_std: Array | None
    guarantee: Guarantee
    certificate: Certificate | None
    lowest: float  # of a return, by the public bound
    highest: float
    parameters: Array | None = None
    released: Mapping[str, Array] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        # States that were left out of the fit have no value.
        known = self.values[~np.isnan(self.values)]
        low, high, count = known.min(), known.max(), len(known)
        values = (
            f"1 value, {low:.3g}" if count == 1 else f"{count} values from {low:.3g} to {high:.3g}"
        )
        return f"ValueEstimate({values}; {self.guarantee})"

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Bounds [s] that each contain the true value with this probability, noise and sampling together.

        Fieller's: all v for which b - v n is within z standard deviations, where b and n are the released sum and count. Unlike a
        standard error it holds however small the count is; where the count may be zero it is the whole range. The sampling variance comes
        from released second moments.
        """
        real("level", level, above=0, below=1)
        policies = self.policy_values
        if policies is not None and policies.moments is not None:
            ends = policies.interval(0, quantile(level, self.guarantee))
            return np.minimum(ends[0], self.values), np.maximum(ends[1], self.values)
        if any(name not in self.released for name in _RATIO):
            raise InvalidParameter(
                "this estimate has no intervals: the released numbers do not determine its error, and the error depends on private data"
            )
        n, b, n_std, b_std, sampling = (self.released[name] for name in _RATIO)
        z = quantile(level, self.guarantee)
        square = n**2 - z**2 * n_std**2
        spread = b_std**2 + sampling
        known = (square > 0) & np.isfinite(spread)
        safe = np.where(known, square, 1.0)
        root = z * np.sqrt(np.maximum(np.where(known, spread, 0.0) * square + n_std**2 * b**2, 0.0))
        centre, radius = (self.highest + self.lowest) / 2, (self.highest - self.lowest) / 2
        low = np.where(known, np.clip((b * n - root) / safe, -1.0, 1.0), -1.0)
        high = np.where(known, np.clip((b * n + root) / safe, -1.0, 1.0), 1.0)
        return centre + radius * low, centre + radius * high

    @property
    def policy_values(self) -> PolicyValues | None:
        """Of a target policy and of the logged one, where weighted returns were released."""
        if "row" not in self.released:
            return None
        return PolicyValues.of(self.released, self.guarantee.users)

    @property
    def logged(self) -> Ratio | None:
        """The value of the policy that made the log, where it was released."""
        if "logged" in self.released:
            return Ratio.of(self.released["logged"])
        policies = self.policy_values
        return None if policies is None else policies.ratio(policies.logged)

    def logged_value(self, level: float = 0.9) -> Value:
        """The value of the policy that made the log, with an interval that holds it with this probability."""
        ratio = self.logged
        if ratio is None:
            return NO_VALUE
        low, high = ratio.interval(quantile(level, self.guarantee))
        return value_with(ratio.value, low, high, self.lowest, self.highest)

    def difference(self, level: float = 0.9) -> Value:
        """The value of the target minus that of the policy it is compared with: the logged one, or `against`."""
        policies = self.policy_values
        if policies is None:
            return NO_VALUE
        other = 1 if policies.policies > 1 else None
        compared = (
            policies.ratio(policies.logged).value if other is None else policies.value(other)[0]
        )
        value = policies.value(0)[0] - compared
        width = self.highest - self.lowest
        if policies.moments is None:
            return Value(value)
        low, high = policies.difference_interval(0, other, quantile(level, self.guarantee))
        return value_with(value, min(low, value), max(high, value), -width, width)

    @property
    def clipped_share(self) -> float | None:
        """How much of the importance weights the clip took off, from noisy sums; 0 where no weight was above the clip."""
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
        """About how many users with equal weights would tell as much; None where there are no weights, or no intervals."""
        policies = self.policy_values
        return None if policies is None else policies.effective_users(0)

    def to_bytes(self) -> bytes:
        """Everything in one NumPy archive without pickles: what a ledger stores, and hands out again."""
        facts: dict[str, Any] = {
            "format": _FORMAT,
            "guarantee": self.guarantee.to_json(),
            "range": [self.lowest, self.highest],
        }
        facts["certificate"] = self.certificate.document if self.certificate else None
        arrays = {
            "values": self.values,
            **{f"released.{name}": array for name, array in self.released.items()},
        }
        arrays |= {
            name: array
            for name in ("noise_std", "parameters")
            if (array := getattr(self, name)) is not None
        }
        buffer = io.BytesIO()
        np.savez(buffer, facts=np.array(json.dumps(facts, allow_nan=False)), **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "ValueEstimate":
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                held = {name: archive[name] for name in archive.files}
            facts = json.loads(str(held.pop("facts")))
            if facts["format"] != _FORMAT:
                raise StateError(
                    f"the estimate has format {facts['format']}, this version of confide reads {_FORMAT}"
                )
            return cls(
                values=held["values"],
                noise_std=held.get("noise_std"),
                guarantee=Guarantee.from_json(facts["guarantee"]),
                certificate=Certificate(facts["certificate"]) if facts["certificate"] else None,
                lowest=facts["range"][0],
                highest=facts["range"][1],
                parameters=held.get("parameters"),
                released={
                    name.removeprefix("released."): held[name]
                    for name in held
                    if name.startswith("released.")
                },
            )
        except DAMAGED as error:
            raise StateError(
                f"this is not a saved estimate, or it is damaged or cut off: {type(error).__name__}"
            ) from None

    def save(self, folder: str | Path) -> None:
        """`estimate.npz`, and `certificate.json` where there is one, into a folder: both are public."""
        where = Path(arguments.path("folder", folder))
        with output(where), replace_files(where, last="estimate.npz") as target:
            if self.certificate:
                self.certificate.save(target / "certificate.json")
            (target / "estimate.npz").write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "ValueEstimate":
        """From a folder that it was saved in, or from the file `estimate.npz` itself."""
        found = Path(arguments.path("path", path))
        try:
            return cls.from_bytes(
                arguments.regular_file(
                    found / "estimate.npz" if found.is_dir() else found
                ).read_bytes()
            )
        except OSError as error:
            raise StateError(f"cannot read an estimate from {path}: {error.strerror}") from None
