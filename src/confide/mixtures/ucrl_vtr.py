"""Privacy-preserving UCRL-VTR [Luyo21, Alg. 1; Ayoub20], in the paper's calibration and tight.

This file has the agent's name and the paper's calibration. The rest is the code of LinOpt-VI
(`linopt_vi`) with known rewards. The name and the version of its identity are part of ledger ids,
saved states and messages.
"""

from typing import Any

from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Calibration
from confide.learning.arguments import choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.mixtures.footprint import regression_footprint
from confide.mixtures.linopt_vi import Regressions, tight, value_iteration
from confide.mixtures.printed import printed, setting_of, whose_constants
from confide.mixtures.regression_choices import Choices
from confide.mixtures.regression_planning import MixturePlanner
from confide.mixtures.requirements import require_mixture
from confide.mixtures.value_features import raw
from confide.planners.regression import Shift
from confide.privacy.request import LocalDP, NoPrivacy, Request
from confide.privatizers import Schedule, every_episode
from confide.problems.feature_mixture import MixturePublic
from confide.problems.sizes import ProblemSizes


def paper(public: MixturePublic, choices: Choices) -> Calibration:
    """[Luyo21, Cor. 5] (joint), [Cor. 6] (local), [C.4] (delta = 0); without noise Upsilon = 0."""
    privacy = choices.privacy
    schedule = choose_schedule(choices.schedule, every_episode(choices.episodes))
    setting = setting_of(public, schedule, choices.failure)
    constants = printed(privacy, setting)
    scale = 1.0 if choices.bonus_scale is None else choices.bonus_scale
    # Lambda is shifted by lambda + 2 Upsilon.
    regularizer = Shift(constants.ridge + 2 * constants.upsilon, constants.beta * scale)
    planner = MixturePlanner(
        public,
        raw(public.dimension),
        regularizer,
        plain=True,
        unit=public.value_bound,
        ceiling=float(public.horizon),
    )
    algorithm = value_iteration(Regressions(planner, constants.bound), schedule)
    tree = None if isinstance(privacy, LocalDP | NoPrivacy) else setting.tree
    return Calibration(
        algorithm, schedule, tree, constants.loss, constants=whose_constants(privacy)
    )


class UCRLVTR(Learner):
    """UCRL-VTR: optimistic planning on value-targeted least squares, from private prefix sums.

    Guarantee: joint DP for every user (`privacy`), by one query per user (all steps together)
    through one counter. Under `LocalDP` it is the same query, noised on the user's device.
    delta = 0 gives Laplace noise. Actions are functions of releases alone. `NoPrivacy` is the same
    algorithm without noise.

    Reference: [Luyo21, Alg. 1]; calibration="paper": Cor. 5, Cor. 6 and C.4, with Q clipped to
    [0, H], a release per episode, and the printed noise, shift and width (times `bonus_scale`). The
    guarantee states the epsilon that this noise gives. Constants that give a larger epsilon than
    requested are refused; `confide.explain` tells before a run. For delta = 0 the paper prints
    orders only, and the constants are ours: Laplace noise that follows from the L1 sensitivity, as
    F.2 intends (`mixtures.printed`).

    The features are kernels with weights on the simplex (`LinearMixtureMDP.public`), or any
    features with weights of a known norm (`FeatureMixtureMDP.public`), which are divided by the
    bound on ||phi_v||.

    | Algorithm 1 | here |
    |---|---|
    | input: K, H, d, epsilon, delta, p | `episodes`, `public`, `privacy`, `failure` |
    | input: C_w | `public.weight_bound` times `public.value_bound`, in `printed.setting_of` |
    | lambda = H^2, beta_k as in Thm. 7 | `printed.printed` |
    | Lambda~_1 = lambda I, u~_1 = 0 | `Shift.estimate` adds lambda I; sums of nobody are zero |
    | for k = 1, ..., K | `Learner.next_batch` and `Learner.observe` |
    | receive Lambda~, w~ | `Learner.released`; w~ = Lambda~^-1 u~ in `MixturePlanner.learn` |
    | phi_V(s, a) | `value_features.SparseKernels`, `_kernels.value_features` |
    | Q~ = min(H, r + phi_V.w~ + beta ||phi_V||) | `planning.optimistic` |
    | V~ = max_a Q~ | `planning.optimistic`, by `_kernels.optimistic` |
    | a = argmax_a Q~(s, a) | `OptimisticPlan.policy`, which all users of a release play |
    | X = phi_V(s_h, a_h), y = V(s_{h+1}) | `contributions.ValueTargets` |
    | send X X^T + B^1, X y + g^1 | `statistics.bounds.RegressionRows` |
    | the same under `LocalDP` | noised by `LocalClient` |
    | B, g: the prefixes of trees, and 2 Upsilon I | `central.CounterNoise` with `Tree`; `Shift` |
    | Lambda~, u~, w~ of the next episode | `CentralPrivatizer.release`, `Regressions.read` |

    Departures of "paper": Q is clipped at 0 from below, without which the printed sensitivity is
    false (`papers/luyo21/errata.py`, `lower_clip`); the last step has no regression, because the
    value after it is zero: H - 1 of them share the noise; an eigenvalue below 1e-12 of the shift,
    which has probability at most `failure`, is raised to that; matrices carry noise in the
    isometric coordinates of `svec`, with the printed standard deviations; the shift is there from
    the first episode on; with another schedule the tree, and K_0, are over its releases.

    Departures of "tight" (each for less noise at the same guarantee, none needed for privacy):
    exact accounting of one joint query instead of composition over steps; GOE noise; values centred
    and scaled to [0, 1] and mixture weights on the simplex, so that rows live in d - 1 dimensions;
    public weights per (s, a); releases on a geometric schedule, each batch one leaf of the counter
    with the least noise; eigenvalues clipped at zero and a ridge of the size of the noise instead
    of the shift 2 Upsilon; estimates projected on the simplex; a bonus from released quantities,
    scaled by `bonus_scale`; up to 2 % of the users explore with a far larger bonus. Its regret is
    measured, not proved.

    exploration="proven": no explorers, and a shift and a width that are proved for the released
    noise (`Proven`), so that values are optimistic with probability 1 - `failure`.
    docs/agents/mixtures.md says what it costs.
    """

    name = "ucrl-vtr"
    profile = Profile(
        "optimistic planning on private least squares",
        family="mixture",
        paper="Luyo21",
        known_rewards=True,
        stuck="more kernels than actions",
    )

    @classmethod
    def footprint(
        cls, sizes: ProblemSizes, *, episodes: int, privacy: Request, **options: Any
    ) -> Footprint:
        return regression_footprint(sizes, episodes=episodes, privacy=privacy, **options)

    def __init__(
        self,
        public: MixturePublic,
        *,
        episodes: int,
        privacy: Request,
        noise: NoiseSource | None = None,
        calibration: str = "tight",
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        failure: float = 0.1,
        exploration: str = "measured",
    ) -> None:
        require_mixture(public, "UCRL-VTR")
        choices = Choices(
            episodes, privacy, calibration, schedule, bonus_scale, failure, exploration=exploration
        )
        if calibration == "tight":
            calibrated = tight(public, choices, value_iteration)
        else:
            calibrated = paper(public, choices)
        identity = Identity(
            self.name,
            1,
            public=public,
            calibration=calibration,
            bonus_scale=bonus_scale,
            failure=failure,
            exploration=exploration,
        )
        super().__init__(calibrated, privacy=privacy, identity=identity, noise=noise)
