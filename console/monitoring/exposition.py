"""Figures in Prometheus' text format, through its own client, without any global state."""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from integration.selectors.metrics import Family

PREFIX: Final = "sluice_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class _Figures(Collector):
    """Hands out families that were counted before; asks nothing itself."""

    def __init__(self, families: Iterable[Family]) -> None:
        self.families = families

    def collect(self) -> Iterator[Metric]:
        for family in self.families:
            kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = kind(PREFIX + family.name, family.help, labels=family.labels)
            for labels, number in family.samples:
                metric.add_metric(labels, number)
            yield metric


def text(families: Iterable[Family]) -> bytes:
    """What a scraper reads. The registry lives as long as this call."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(list(families)))
    return generate_latest(registry)
