"""Numbers for operators, as Prometheus reads them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """Numbers for operators: of requests and reports, never of what reports hold."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reports = Counter("privreg_reports", "Posted reports by outcome", ["outcome"], registry=self.registry)
        self.states = Counter("privreg_states", "States handed out by status", ["status"], registry=self.registry)
        self.people = Gauge("privreg_people", "Reports that count", registry=self.registry)
        self.number = Gauge("privreg_state", "Number of the present state", registry=self.registry)
        self.seconds = Histogram("privreg_report_seconds", "From a post to its answer", registry=self.registry)
