"""What is audited, by name: mechanisms, counters, agents, devices, estimators."""

from collections.abc import Callable
from functools import partial

from confide.agents.catalogue import AGENTS, private_agents
from confide.arguments import choice, kind, shown
from confide.audit.agents import AgentSubject, AnswersSubject, DeviceSubject
from confide.audit.estimators import (
    TWO_QUESTIONS,
    CountsAndSumsSubject,
    SmoothEstimateSubject,
    TwoQuestionsSubject,
)
from confide.audit.mechanisms import (
    TWINS,
    CounterSubject,
    KNormSubject,
    SmoothSubject,
    StreamSubject,
)
from confide.audit.refute import Subject
from confide.errors import InvalidParameter
from confide.mechanisms.counters import FACTORISATIONS, Discounted, Factorisation, Toeplitz
from confide.privacy.request import CentralDP, Relation

Maker = Callable[[CentralDP, str | None, str], Subject]


def subjects() -> dict[str, Maker]:
    """Everything that `confide audit` can attack, by name."""

    def counter(name: str, leaves: int) -> Maker:
        return lambda privacy, twin, source: CounterSubject(
            _counter(name, leaves, source), privacy, twin, source
        )

    return {
        "gaussian": counter("exact", 1),
        "laplace": counter("exact", 1),
        **{body: partial(KNormSubject, body) for body in ("cube", "ball")},
        "smooth": SmoothSubject,
        **{name: counter(name, 8) for name in FACTORISATIONS},
        "stream": StreamSubject,
        **{name: partial(AgentSubject, name) for name in private_agents()},
        "lsvi-ucb-answers": partial(AnswersSubject, "lsvi-ucb"),
        "lsvi-ucb-observations": partial(AgentSubject, "lsvi-ucb", observed=True),
        "lsvi-ucb-observations-answers": partial(AnswersSubject, "lsvi-ucb", observed=True),
        "counts-and-sums": CountsAndSumsSubject,
        **{name: partial(SmoothEstimateSubject, name) for name in ("dp-lsw", "dp-lsl")},
        **{name: partial(TwoQuestionsSubject, name) for name in TWO_QUESTIONS},
    }


def devices() -> dict[str, Maker]:
    """The agents whose devices can be attacked."""
    return {
        name: partial(DeviceSubject, name)
        for name in private_agents()
        if AGENTS[name].profile.local
    }


def subject(
    name: str,
    privacy: CentralDP,
    *,
    twin: str | None = None,
    source: str = "fast",
    trust: str = "joint",
) -> Subject:
    """The subject of that name with that guarantee, or its broken variant.

    With `trust="local"` it is the messages of an agent's devices.
    """
    choice("trust", trust, ("joint", "local"))
    choice("source", source, ("fast", "secure"))
    kind("privacy", privacy, CentralDP)
    makers = subjects() if trust == "joint" else devices()
    if not isinstance(name, str) or name not in makers:
        where = " under local trust" if trust == "local" else ""
        raise InvalidParameter(
            f"unknown audit subject {shown(name)}{where}; choose one of {', '.join(makers)}"
        )
    if twin is not None:
        choice("twin", twin, TWINS)
        _check_twin(twin, name, makers[name](privacy, None, source), source, trust)
    if privacy.relation is not Relation.REPLACE:
        raise InvalidParameter('audits run under the relation "replace"')
    if name in ("laplace", "cube", "ball"):
        privacy = CentralDP(privacy.epsilon, delta=0.0)
    if name in ("gaussian", "smooth", "dp-lsw", "dp-lsl") and privacy.delta == 0:
        raise InvalidParameter(f"the audit of {name} needs delta > 0")
    return makers[name](privacy, twin, source)


def _check_twin(twin: str, name: str, honest: Subject, source: str, trust: str) -> None:
    """Refuse a broken variant that cannot be made."""
    clips = isinstance(honest, CounterSubject | KNormSubject | SmoothSubject)
    if twin == "clip" and not clips and not hasattr(honest, "unclipped"):
        raise InvalidParameter(
            f"{name} cannot be audited without clipping: "
            "a privatizer accepts clipped contributions only"
        )
    if twin == "shared" and trust == "local":
        raise InvalidParameter(
            "devices that share their noise share the nonce, too: "
            "the server refuses the second message"
        )
    if twin in ("noise", "shared") and source != "fast":
        raise InvalidParameter(
            f"the broken variant {twin!r} needs fast noise, got source={source!r}"
        )


def _counter(name: str, leaves: int, source: str) -> Factorisation:
    if source == "secure":
        # A lattice needs whole coefficients.
        if name == "toeplitz":
            return Toeplitz(leaves, bits=16)
        if name == "discounted":
            return Discounted(leaves, bits=16)
    return FACTORISATIONS[name](leaves)
