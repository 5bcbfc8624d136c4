"""The loops over logged rows: take whole users in, up to the caps, and count what is wrong.

PRIVATE side. That a user with a bad row contributes nothing, and that rows after the caps are not
looked at, is what bounds of logs rest on. tests/logs/test_reader.py compares with plain Python.
"""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# What `absorb` carries from one batch to the next, in an array of int64: how many rows,
# trajectories and users are in the block, whether there is a user already, the id of the last user,
# of their trajectory, and the number of their step, the first row and the first trajectory of this
# user, and whether the rest of them is left out.
(
    ROWS,
    TRAJECTORIES,
    USERS,
    HAS_USER,
    USER,
    TRAJECTORY,
    STEP,
    FIRST_ROW,
    FIRST_TRAJECTORY,
    OVER,
) = range(10)
CARRIED = 10


@njit
def absorb(
    user: Ints,
    trajectory: Ints,
    step: Ints,
    state: Ints,
    reward: Array,
    action: Ints,
    probability: Array,
    hollow: Flags,
    max_trajectories: int,
    max_steps: int,
    at: Ints,
    states: Ints,
    rewards: Array,
    actions: Ints,
    probabilities: Array,
    gaps: Flags,
    trajectories: Ints,
    users: Ints,
    valid: Flags,
) -> int:
    """Append rows to the block. Return -1, or the first row of a user out of order.

    Of a user with a bad row nothing is kept, and rows after the caps are not looked at.
    """
    rows, trajs, count = at[ROWS], at[TRAJECTORIES], at[USERS]
    has_user, who, which, last = at[HAS_USER], at[USER], at[TRAJECTORY], at[STEP]
    first_row, first_traj, over = at[FIRST_ROW], at[FIRST_TRAJECTORY], at[OVER]
    smallest = np.iinfo(np.int64).min
    # Which columns are logged. The loop is 30 % slower if it looks at their sizes in each row.
    has_trajectories, has_steps, has_hollow = trajectory.size > 0, step.size > 0, hollow.size > 0
    has_actions, has_probabilities = action.size > 0, probability.size > 0
    for i in range(user.size):
        fresh = has_user == 0 or user[i] != who
        if fresh:
            if has_user != 0 and user[i] < who:
                return i
            has_user, who, over, first_row, first_traj = 1, user[i], 0, rows, trajs
            users[count] = trajs
            valid[count] = True
            count += 1
        if over != 0:
            continue
        if fresh or (has_trajectories and trajectory[i] != which):
            if trajs - first_traj == max_trajectories:
                over = 1
                continue
            which = trajectory[i] if has_trajectories else 0
            last = smallest
            trajectories[trajs] = rows
            trajs += 1
        if (has_hollow and hollow[i]) or rows - trajectories[trajs - 1] == max_steps:
            continue
        good = state[i] >= 0 and np.isfinite(reward[i]) and (not has_steps or step[i] > last)
        good = good and (not has_actions or action[i] >= 0)
        if not good or (has_probabilities and not 0.0 < probability[i] <= 1.0):
            # Nothing of this user is kept, and the rest is not looked at.
            rows, trajs, over = first_row, first_traj, 1
            valid[count - 1] = False
            continue
        if has_steps:
            gaps[rows] = last != smallest and step[i] - 1 > last
            last = step[i]
        states[rows] = state[i]
        rewards[rows] = reward[i]
        if has_actions:
            actions[rows] = action[i]
        if has_probabilities:
            probabilities[rows] = probability[i]
        rows += 1
    at[ROWS], at[TRAJECTORIES], at[USERS] = rows, trajs, count
    at[HAS_USER], at[USER], at[TRAJECTORY], at[STEP] = has_user, who, which, last
    at[FIRST_ROW], at[FIRST_TRAJECTORY], at[OVER] = first_row, first_traj, over
    return -1


# What `inspect` counts, in the order of `Check`, and after that what it carries from one batch to
# the next.
COUNTS = 12
(
    SEEN_USERS,
    SEEN_TRAJECTORIES,
    SEEN_ROWS,
    GAPS,
    DUPLICATES,
    DISORDER,
    NOT_FINITE,
    OUT_OF_RANGE,
    OVER_TRAJECTORIES,
    OVER_STEPS,
    ZERO,
    SINGLE,
    I_HAS_USER,
    I_USER,
    I_TRAJECTORY,
    I_STEP,
    I_TRAJECTORIES,
    I_STEPS,
    I_LONG,
    I_BAD,
) = range(20)
INSPECTED = 20


@njit
def inspect(
    user: Ints,
    trajectory: Ints,
    step: Ints,
    state: Ints,
    reward: Array,
    action: Ints,
    probability: Array,
    hollow: Flags,
    max_trajectories: int,
    max_steps: int,
    largest_state: int,
    at: Ints,
) -> int:
    """Count what is there and what is wrong, in all rows.

    Like `absorb`, it returns -1 or the first row of a user out of order. A user is bad, and counted
    as zero, by rows within the caps only.
    """
    null = np.iinfo(np.int64).min
    for i in range(user.size):
        fresh = at[I_HAS_USER] == 0 or user[i] != at[I_USER]
        if fresh:
            if at[I_HAS_USER] != 0 and user[i] < at[I_USER]:
                return i
            at[SEEN_USERS] += 1
            at[I_HAS_USER] = 1
            at[I_USER] = user[i]
            at[I_TRAJECTORIES] = 0
            at[I_LONG] = 0
            at[I_BAD] = 0
        if fresh or (trajectory.size > 0 and trajectory[i] != at[I_TRAJECTORY]):
            at[SEEN_TRAJECTORIES] += 1
            at[I_TRAJECTORIES] += 1
            at[I_TRAJECTORY] = trajectory[i] if trajectory.size > 0 else 0
            at[I_STEP] = null
            at[I_STEPS] = 0
            at[OVER_TRAJECTORIES] += at[I_TRAJECTORIES] == max_trajectories + 1
        if hollow.size > 0 and hollow[i]:
            continue
        at[SEEN_ROWS] += 1
        at[I_STEPS] += 1
        at[SINGLE] += (at[I_STEPS] == 1) - (at[I_STEPS] == 2)
        if at[I_STEPS] > max_steps and at[I_LONG] == 0:
            at[I_LONG] = 1
            at[OVER_STEPS] += 1
        bad = step.size > 0 and count_step(step[i], at)
        bad = count_values(state[i], reward[i], largest_state, at) or bad
        if action.size > 0 and action[i] < 0:
            bad = True
            at[OUT_OF_RANGE] += action[i] != null
        if probability.size > 0 and not 0.0 < probability[i] <= 1.0:
            bad = True
            at[OUT_OF_RANGE if np.isfinite(probability[i]) else NOT_FINITE] += 1
        within = at[I_TRAJECTORIES] <= max_trajectories and at[I_STEPS] <= max_steps
        if bad and within and at[I_BAD] == 0:
            at[I_BAD] = 1
            at[ZERO] += 1
    return -1


@njit
def count_step(step: int, at: Ints) -> bool:
    """Whether the step does not follow the one before."""
    null = np.iinfo(np.int64).min
    if step == null:
        return True
    last = at[I_STEP]
    at[I_STEP] = step
    if last == null:
        return False
    at[GAPS] += step > last and step - 1 > last
    at[DUPLICATES] += step == last
    at[DISORDER] += step < last
    return bool(step <= last)


@njit
def count_values(state: int, reward: float, largest_state: int, at: Ints) -> bool:
    """Whether a state or a reward is not one."""
    null = np.iinfo(np.int64).min
    outside = state < 0 or state > largest_state
    finite = np.isfinite(reward)
    at[OUT_OF_RANGE] += outside and state != null
    at[NOT_FINITE] += not finite
    return outside or not finite
