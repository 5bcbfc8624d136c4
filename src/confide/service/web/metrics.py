"""Metrics for Prometheus, on a port of their own. They are for operators.

In a run with deadlines they are PRIVATE, because they count arrivals. The names of metrics and
labels are a format: operators' dashboards have them.
"""

import math
from collections.abc import Iterable
from typing import Any

from confide.errors import StoreError
from confide.service.core.live import LiveRun
from confide.service.core.service import Service

_PRIVATE = "PRIVATE for runs with deadlines: it counts arrivals."


class Collector:
    """Reads the counters of a service when Prometheus asks for them.

    Labels are names of runs and outcomes: nobody's data.
    """

    def __init__(self, service: Service, refused: dict[str, int]) -> None:
        self._service = service
        self._refused = refused

    def collect(self) -> Iterable[Any]:
        yield from self._counters()
        yield from self._gauges_of_runs()
        yield from self._readiness()

    def _counters(self) -> Iterable[Any]:
        from prometheus_client.core import CounterMetricFamily

        service = self._service
        answers = CounterMetricFamily(
            "confide_reports",
            f"Reports by outcome, answered by this process. {_PRIVATE}",
            labels=["run", "outcome"],
        )
        for (run, outcome), count in list(service.counts.items()):
            answers.add_metric([run, outcome], count)
        refused = CounterMetricFamily(
            "confide_refused",
            "Requests refused before a run saw them, by reason.",
            labels=["reason"],
        )
        for reason, count in list(self._refused.items()):
            refused.add_metric([reason], count)
        commits = CounterMetricFamily(
            "confide_commits", f"Transactions with reports. {_PRIVATE}", labels=["run"]
        )
        for run, count in list(service.commits.items()):
            commits.add_metric([run], count)
        return answers, refused, commits

    def _gauges_of_runs(self) -> Iterable[Any]:
        from prometheus_client.core import GaugeMetricFamily

        releases = GaugeMetricFamily("confide_generation", "The newest release.", labels=["run"])
        users = GaugeMetricFamily(
            "confide_open_users",
            f"Users in the open batch, of all workers. {_PRIVATE}",
            labels=["run"],
        )
        deadlines = GaugeMetricFamily(
            "confide_deadline_seconds", "When the open batch closes, since 1970.", labels=["run"]
        )
        for name, live in list(self._service.runs.items()):
            releases.add_metric([name], live.generation)
            users.add_metric([name], self._open_users(live))
            deadline = live.spec.batch.deadline(live.generation)
            if live.status != "finished" and math.isfinite(deadline):
                deadlines.add_metric([name], deadline)
        return releases, users, deadlines

    def _readiness(self) -> Iterable[Any]:
        from prometheus_client.core import GaugeMetricFamily

        service = self._service
        waiting = GaugeMetricFamily(
            "confide_waiting", "Reports in the queue.", value=service.waiting
        )
        ready = GaugeMetricFamily(
            "confide_ready", "Whether reports are taken.", value=float(service.ready)
        )
        runs_ready = GaugeMetricFamily(
            "confide_run_ready", "Whether the reports of a run are taken.", labels=["run"]
        )
        not_ready = service.not_ready
        for name in sorted(service.runs.keys() | not_ready.keys()):
            runs_ready.add_metric([name], float(name not in not_ready))
        return waiting, ready, runs_ready

    def _open_users(self, run: LiveRun) -> int:
        """Return the users of all workers, or those of this one if the store cannot be read."""
        try:
            return self._service.store.head(run.name).users
        except StoreError:
            return run.users


def serve_metrics(service: Service, refused: dict[str, int], port: int, host: str) -> Any:
    """Start a server of metrics in a thread of its own, and return it."""
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(Collector(service, refused))
    server, _ = start_http_server(port, host, registry)
    return server
