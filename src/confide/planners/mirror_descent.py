"""Steps of policy optimisation, pi'(a | s) ~ pi(a | s) exp(eta Q(s, a)), on logits [h, s, a]: log pi up to a constant per state."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def improve(logits: Array, Q: Array, step: float) -> Array:
    """One mirror-descent step of size eta = `step`; the largest logit of each state is kept at zero."""
    moved = logits + step * Q
    return np.asarray(moved - moved.max(axis=2, keepdims=True))


def softmax(logits: Array) -> Array:
    """The policy [h, s, a] of the logits."""
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))
