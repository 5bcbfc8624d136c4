"""A crowd of simulated people."""

from service_bench import URL, WORLD, serving, spec, through

from confide.mechanisms.sources import noise_source
from confide.service.device.client import Accepts
from confide.service.device.crowd import Crowd


def test_a_crowd_of_devices_at_once(folder):
    with serving(folder, spec(users=100, every=25)) as http:
        crowd = Crowd(
            URL,
            "demo",
            WORLD,
            api_key=http.keys["device"],
            accepts=Accepts(1.0, 1e-5, simulation=True),
            source=lambda: noise_source("fast"),
            send=through(http),
        )
        crowd.come(300, at_once=4)
        assert (
            crowd.outcomes["counted"]
            == 100
            == sum(http.service.store.participants("demo").values())
        )
        assert set(crowd.outcomes) <= {"counted", "late", "finished"}
        assert http.service.runs["demo"].generation == 4


def test_a_crowd_stops_when_it_is_told():
    """Also where the service is gone, and devices would try again for a while."""

    def gone(*_):
        raise ConnectionRefusedError

    answers = iter([False, False] + [True] * 100)
    crowd = Crowd(
        URL,
        "demo",
        WORLD,
        api_key="",
        accepts=Accepts(1.0, 1e-5),
        source=lambda: noise_source("fast"),
        send=gone,
    )
    crowd.come(50, at_once=1, stop=lambda: next(answers, True))
    assert crowd.outcomes == {"stopped": 1}
