"""What the registry counts, for Prometheus.

Routes are few, so they are labels; subjects, tenants and whoever asks are many, and are not.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

#: a look-up takes some milliseconds, a schema that a judge has to be ended for ten seconds
_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
#: of a path that there is not, whatever it is
NO_ROUTE = "none"
_REGISTERS = "POST /subjects/{subject}/versions"


class RegistryMetrics:
    """Counters of one registry process, in a registry of their own."""

    def __init__(self, judges_busy: Callable[[], int]) -> None:
        """Nothing has been asked yet.

        Args:
            judges_busy: how many judges look at a schema now.
        """
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "headrace_registry_requests",
            "Requests, by route and HTTP status.",
            ["route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "headrace_registry_request_seconds",
            "From the beginning of a request to its answer.",
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._registrations = Counter(
            "headrace_registry_registrations",
            "Schemas that were to be registered, by result: registered (also if they were there), "
            "incompatible, refused (for what they are, or to who sent them) or failed (ours).",
            ["result"],
            registry=self._registry,
        )
        busy = Gauge(
            "headrace_registry_judges_busy",
            "Judges that look at a schema now.",
            registry=self._registry,
        )
        busy.set_function(judges_busy)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request has its answer."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.observe(seconds)
        if route == _REGISTERS:
            self._registrations.labels(_result(status)).inc()

    def exposition(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)


def _result(status: int) -> str:
    if status == 200:
        return "registered"
    if status == 409:
        return "incompatible"
    return "refused" if status < 500 else "failed"
