"""What operators' alerts are made of."""

from prometheus_client import CollectorRegistry
from service_bench import Bench

from confide.service.core.spec import Batching
from confide.service.web.metrics import Collector


def test_the_time_of_a_deadline_can_be_watched(folder):
    """A close that is overdue is an alert; a run that is finished has none."""
    bench = Bench(folder, clock=lambda: 1000.0)
    bench.create(users=8, batch=Batching(rule="deadline", schedule=4, every=100.0, start=1000.0))
    bench.create("counts")
    registry = CollectorRegistry()
    registry.register(Collector(bench.service, {}))
    assert registry.get_sample_value("confide_deadline_seconds", {"run": "demo"}) == 1100.0
    assert registry.get_sample_value("confide_deadline_seconds", {"run": "counts"}) is None
    bench.service.set_status("demo", "finished", "test")
    assert registry.get_sample_value("confide_deadline_seconds", {"run": "demo"}) is None
    bench.stop()
