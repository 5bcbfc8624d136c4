"""Linear systems from and to python-control (`control.StateSpace`). Needs `confide[control]`.

Whoever hands in a StateSpace has imported python-control already, so `from_control` does not.
"""

import math
import sys
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from confide.arguments import array, choice, kind, real
from confide.errors import InvalidParameter, MissingExtra
from confide.problems.lq import LQSystem

if TYPE_CHECKING:
    import control

# Methods that leave the state as it is. The others (bilinear, foh and so on) mix inputs into it.
METHODS = ("zoh", "euler")


def from_control(
    statespace: "control.StateSpace",
    *,
    Q: npt.ArrayLike,
    R: npt.ArrayLike,
    horizon: int,
    noise_radius: float,
    dt: float | None = None,
    method: Literal["zoh", "euler"] = "zoh",
    state_observed: bool = False,
    parameter_bound: float | None = None,
    gain_bound: float = 1.2,
    name: str = "control",
) -> LQSystem:
    """A StateSpace of python-control as a problem.

    Costs are per step: multiply costs per second by dt. A system in continuous time is discretised
    by steps of `dt`, with inputs held in between ("zoh") or by Euler's rule. One in discrete time
    is taken as it is.

    Agents see the whole state, so C must be the identity and D zero. `state_observed=True` says
    that the state is measured all the same. C and D may then be anything, as in `control.lqr`,
    which ignores them.
    """
    given = _check_statespace(statespace)
    n = given.nstates
    d = given.ninputs
    if n == 0:
        raise InvalidParameter("the StateSpace must have states, got none")
    is_identity = given.C.shape == (n, n) and np.array_equal(given.C, np.eye(n))
    output_is_state = is_identity and not np.any(given.D)
    if not (output_is_state or state_observed):
        raise InvalidParameter(
            "agents see the whole state: C must be the identity and D zero, "
            f"got C of shape {given.C.shape}; "
            "if the state is measured whatever C says, pass state_observed=True"
        )
    discrete = _discretize(given, dt, method)
    B = np.asarray(discrete.B, dtype=float).reshape(n, d)
    A = np.asarray(discrete.A, dtype=float)
    return LQSystem(
        A,
        B,
        array("Q", Q),
        array("R", R),
        horizon,
        noise_radius,
        parameter_bound=parameter_bound,
        gain_bound=gain_bound,
        name=name,
    )


def to_control(system: LQSystem, dt: float | Literal[True] = True) -> "control.StateSpace":
    """A problem's A and B as a StateSpace in discrete time whose output is the state.

    dt=True leaves the length of a step open.
    """
    try:
        import control
    except ImportError:
        raise MissingExtra(
            "python-control is not installed: pip install 'confide[control]'"
        ) from None
    if dt is not True:
        _check_step(dt)
        dt = float(dt)
    kind("system", system, LQSystem)
    n, d = system.B.shape
    return control.StateSpace(system.A, system.B, np.eye(n), np.zeros((n, d)), dt, name=system.name)


def _check_statespace(given: Any) -> Any:
    library = sys.modules.get("control")
    if library is None or not isinstance(given, library.StateSpace):
        raise InvalidParameter(
            f"a control.StateSpace was expected, got {type(given).__name__}: "
            "control.ss(...) makes one"
        )
    return given


def _discretize(given: Any, dt: float | None, method: str) -> Any:
    """The system in discrete time.

    In python-control dt is 0 for continuous time, True for discrete time with a step of any length,
    and None if nobody has said.
    """
    if given.dt is None:
        raise InvalidParameter(
            "the StateSpace does not say whether its time is continuous, got dt=None: "
            "set its dt to 0 or to a step"
        )
    if given.dt == 0:
        if dt is None:
            raise InvalidParameter(
                "a StateSpace in continuous time needs dt, the length of a step, got dt=None"
            )
        _check_step(dt)
        choice("method", method, METHODS)
        return given.sample(dt, method)
    if dt is None:
        return given
    _check_step(dt)
    if given.dt is not True and not math.isclose(dt, given.dt, rel_tol=1e-9):
        raise InvalidParameter(
            f"the StateSpace is already in discrete time, with steps of {given.dt:g}, "
            f"got dt={dt:g}: omit dt"
        )
    return given


def _check_step(dt: float) -> None:
    real("dt", dt, above=0)
