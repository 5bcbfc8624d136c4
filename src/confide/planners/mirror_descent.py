"""Steps of policy optimization, pi'(a | s) ~ pi(a | s) exp(eta Q(s, a)).

They work on logits [h, s, a]: log pi up to a constant per state.
"""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def improve(logits: Array, Q: Array, step: float) -> Array:
    """Take one mirror-descent step of size eta = `step`.

    The largest logit of each state stays zero.
    """
    new_logits = logits + step * Q
    return np.asarray(new_logits - new_logits.max(axis=2, keepdims=True))


def softmax(logits: Array) -> Array:
    """Return the policy [h, s, a] that has these logits."""
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))
