"""LinOpt-VI [Zhou22, Alg. 1]: optimistic value iteration where transitions and rewards are both unknown."""

from dataclasses import dataclass, replace

from confide.learning.learner import Description, Learner, Round
from confide.mechanisms.sources import NoiseSource
from confide.mixtures.planning import optimistic
from confide.mixtures.regressions import Choices, Regressions
from confide.planners.regression import MakeRegularizer
from confide.privacy.bounded import Bound, Released
from confide.privacy.request import Request
from confide.privatizers import Schedule
from confide.problems.linear_mixture import LinearMixturePublic


@dataclass(frozen=True, slots=True, eq=False)
class OptimisticValueIteration:
    """[Zhou22, Alg. 1] and, with known rewards, [Luyo21, Alg. 1] between two releases."""

    regressions: Regressions

    @property
    def bound(self) -> Bound:
        return self.regressions.bound

    def plan(self, released: Released) -> Round:
        both, known = self.regressions, self.regressions.read(released)
        plan = optimistic(
            both.kernels, known.rewards, known.estimate, feature_map=both.features, width=known.width, ceiling=both.ceiling
        )
        return Round((plan.policy,), both.statistic(plan.values), signal=known.signal)

    def describe(self) -> Description:
        return self.regressions.describe()


def value_iteration(regressions: Regressions, schedule: Schedule) -> OptimisticValueIteration:  # noqa: ARG001 - the same at all times
    return OptimisticValueIteration(regressions)


class LinOptVI(Learner):
    """Private-LinOpt-VI: optimistic value iteration on two private regressions, of values and of rewards.

    Guarantee: joint DP for every user (`privacy`; `LocalDP` noises on the device), by one query per user: all steps of both regressions
    together, D^2 = (H - 1) D_p^2 + H w^2 D_r^2, w the split of the budget. Rewards are clipped to [0, 1] user by user. delta = 0 gives
    Laplace noise; `NoPrivacy` is the same algorithm without noise. The certificate states the epsilon of the noise that is added, also
    for calibration="paper", and a nominal epsilon that the printed constants do not keep is refused with the true one.

    Reference: [Zhou22, Alg. 1, Def. 6.2]; local: Remark 6.9. With known rewards (`public.rewards`) there is one regression only.

    Departures of "tight" (none needed for privacy): those of `UCRLVTR`; rewards centred at 1/2 and weighted by public weights; estimated
    rewards clipped to [0, 1]; entries of Lambda_r that the features make zero are set to zero. Regret is measured, not proved.
    Departures of "paper": GOE noise with the printed variance on the diagonal (printed: the same off it as well, for no gain); statistics
    use phi^j of episode j, and Lambda starts at the shift; the last two users share a release, so that a tree over the episodes has the
    printed m levels; there are no printed constants for delta = 0, which is refused.
    """

    name = "linopt-vi"

    def __init__(
        self,
        public: LinearMixturePublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        failure: float = 0.1,
        noise: NoiseSource | None = None,
        regularizer: MakeRegularizer | None = None,
    ) -> None:
        choices = Choices(episodes, privacy, calibration, schedule, bonus_scale, failure, regularizer)
        made = choices.calibrate(public, "LinOpt-VI", value_iteration)
        super().__init__(made, privacy=privacy, noise=noise)

    def describe(self) -> Description:
        said, same = super().describe(), "; rewards are known, so this is ucrl-vtr"
        known = isinstance(self.algorithm, OptimisticValueIteration) and self.algorithm.regressions.public.rewards is not None
        return replace(said, planning=said.planning + same) if known and said.calibration == "tight" else said
