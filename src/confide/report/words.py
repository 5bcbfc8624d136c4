"""The result in plain words, and numbers as people read them."""

import math

from confide.privacy.request import Trust
from confide.report.bands import Summary
from confide.report.promises import count
from confide.report.series import Series, World


def headline(world: World) -> str:
    """What these runs showed, in one or two sentences: about the learner that comes first, as it was asked for."""
    if not world.learners:
        return _room(world)
    chosen = world.learners[0]
    who = f"the private learner {spoken(chosen)}" if chosen.promise.private else spoken(chosen)
    start = f"After {count(chosen.users)} users, {who}"
    if not world.exact:
        unknown = "What optimal play earns here is not known, so regret is not either."
        return f"{start} has earned {plus_minus(chosen.mean_return())} per user. {unknown}"
    place = _place(world.progress(chosen.final_value().mean), number(chosen.final_value().mean))
    return " ".join([f"{start} {place}.", *cost(world, chosen)])


def spoken(series: Series) -> str:
    """A label within a sentence."""
    return series.agent if series.label == series.agent else f"{series.agent} ({series.label.removeprefix(series.agent + ', ')})"


def cost(world: World, series: Series) -> list[str]:
    """What it lost, beside the same learner without privacy and beside uniform play."""
    regret, said = series.final_regret().mean, []
    twin = twin_of(world, series)
    if series.promise.private and (ratio := times(world, series)) is not None and twin is not None:
        open_ = number(twin.final_regret().mean)
        if ratio < 1.05:
            said.append(f"Its regret, {number(regret)}, is no larger than that of the same learner without privacy, {open_}.")
        else:
            said.append(
                f"Privacy cost {number(ratio, 2)} times the regret of the same learner without privacy "
                f"({number(regret)} against {open_})."
            )
    share = share_of_uniform(world, series)
    if share is not None:
        said.append(f"Its regret is {in_words(percent(share))} of what uniform play loses.")
    return said


def twin_of(world: World, series: Series) -> Series | None:
    """The same agent without privacy, after as many users: beside another one a difference need not be privacy's."""
    same = (s for s in world.learners if s.agent == series.agent and s.users == series.users)
    return next((s for s in same if s.promise.trust is Trust.NONE), None)


def times(world: World, series: Series) -> float | None:
    """The regret of a private series over its twin's."""
    twin = twin_of(world, series)
    if twin is None or not world.exact:
        return None
    mine, other = series.final_regret().mean, twin.final_regret().mean
    return mine / other if other > 0 and math.isfinite(mine) else None


def share_of_uniform(world: World, series: Series) -> float | None:
    if not world.gap or world.gap < 0:
        return None
    share = series.final_regret().mean / (world.gap * series.users)
    return share if math.isfinite(share) else None


def _place(progress: float | None, value: str) -> str:
    if progress is None:
        return f"plays a policy of value {value}"
    if progress < -0.005:
        return f"plays worse than uniform play (a policy of value {value})"
    if progress < 0.005:
        return "plays no better than uniform play"
    return f"is {in_words(percent(progress))} of the way from uniform to optimal play"


def _room(world: World) -> str:
    if world.gap is None:
        return f"Reference play only, for {count(world.users)} users: no learner took part."
    return (
        f"Uniform play loses {number(world.gap * world.users, 4)} to optimal play over {count(world.users)} users: "
        "the room that a learner has. No learner took part in these runs."
    )


def number(value: float, digits: int = 3) -> str:
    """Three digits are enough for people; large numbers are spelled out."""
    if not math.isfinite(value):
        return "unknown"
    if value and not 1e-3 <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    rounded = float(f"{value:.{digits}g}")
    return count(rounded) if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:.{digits}g}"


def plus_minus(figure: Summary) -> str:
    """The mean to the digits that its standard error leaves."""
    if not figure.error or not math.isfinite(figure.error):
        return number(figure.mean)
    place = math.floor(math.log10(figure.error)) - 1
    digits = 3 if figure.mean == 0 else math.floor(math.log10(abs(figure.mean))) - place + 1
    return f"{number(figure.mean, min(max(digits, 2), 6))} ± {number(figure.error, 2)}"


def percent(share: float) -> str:
    """Never 100 % for less than all of it."""
    if 0.9995 <= share < 1 - 1e-9:
        return ">\u202f99.9\u202f%"
    if abs(share) < 1e-9:
        return "0\u202f%"
    if 0 < share < 1e-4:
        return "<\u202f0.01\u202f%"
    digits = 3 if abs(share) >= 0.1 else 2
    return f"{100 * share:.{digits}g}\u202f%" if abs(share) < 9.995 else f"{count(100 * share)}\u202f%"


def in_words(share: str) -> str:
    return share.replace(">\u202f", "more than ").replace("<\u202f", "less than ")
