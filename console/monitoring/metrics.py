"""/metrics: the figures in Prometheus' text format, and who may read them."""

import hmac
import logging
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import accumulate
from typing import Final

from django.conf import settings
from django.db import Error as AnyDatabaseError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from console.layout.access import Right, has, scope_of
from crontasks.health import metrics
from crontasks.running.outage import is_of_others, is_outage
from integration.handlers.traces import what_and_where
from integration.selectors.metrics import Family

log = logging.getLogger(__name__)
PREFIX: Final = "sluice_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# A proxy at an address of the list is a peer, too, whoever it speaks for.
FORWARDED: Final = (
    "HTTP_FORWARDED",
    "HTTP_VIA",
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_REAL_IP",
)
REFUSED: Final = (
    "These figures name queues. Send `Authorization: Bearer` with the value of "
    "SLUICE_METRICS_TOKEN, or log in with the right to see queues and failures of every external "
    "system. They are also given to the addresses of SLUICE_METRICS_ADDRESSES, without a proxy in "
    "between.\n"
)
NO_FIGURES: Final = "The database did not give the figures. See /readyz and the log.\n"


@require_safe
def metrics_page(request: HttpRequest) -> HttpResponse:
    if not (_has_token(request) or _may_see_all(request) or _is_listed(request)):
        refused = HttpResponse(REFUSED, status=401, content_type="text/plain; charset=utf-8")
        refused["WWW-Authenticate"] = 'Bearer realm="sluice"'
        return refused
    try:
        figures = exposed(metrics.everything())
    except AnyDatabaseError as failure:
        passes = is_outage(failure) or is_of_others(failure)
        level = logging.WARNING if passes else logging.ERROR
        log.log(level, "there are no figures: %s at %s", *what_and_where(failure))
        return HttpResponse(NO_FIGURES, status=503, content_type="text/plain; charset=utf-8")
    return HttpResponse(figures, content_type=CONTENT_TYPE)


def _has_token(request: HttpRequest) -> bool:
    token = settings.SLUICE_METRICS_TOKEN
    sent = request.META.get("HTTP_AUTHORIZATION", "")
    return bool(token) and hmac.compare_digest(sent.encode(), f"Bearer {token}".encode())


def _is_listed(request: HttpRequest) -> bool:
    """Return True when the peer itself is listed; logged-in people are judged by their rights."""
    if request.user.is_authenticated or any(name in request.META for name in FORWARDED):
        return False
    try:
        peer = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        # A server on a Unix socket names no peer: whoever speaks through it is a proxy.
        return False
    if isinstance(peer, IPv6Address) and peer.ipv4_mapped is not None:
        peer = peer.ipv4_mapped
    return any(peer in ip_network(one) for one in settings.SLUICE_METRICS_ADDRESSES)


def _may_see_all(request: HttpRequest) -> bool:
    """A person whose sight is limited to some systems would read the names of all the others."""
    return has(request.user, Right.VIEW) and scope_of(request.user).is_whole


class _Figures(Collector):
    """Hands out families that were counted before; asks nothing itself."""

    def __init__(self, families: Iterable[Family]) -> None:
        self.families = families

    def collect(self) -> Iterator[Metric]:
        for family in self.families:
            if family.kind == "histogram":
                yield _histogram(family)
                continue
            kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = kind(PREFIX + family.name, family.help, labels=family.labels)
            for labels, number in family.samples:
                metric.add_metric(labels, number)
            yield metric


def _histogram(family: Family) -> Metric:
    """Prometheus counts in each bucket what lies in all below it, too."""
    metric = HistogramMetricFamily(PREFIX + family.name, family.help, labels=family.labels)
    for labels, bounds, counts, total in family.spreads:
        names = [*(str(float(bound)) for bound in bounds), "+Inf"]
        buckets = list(zip(names, accumulate(counts), strict=True))
        metric.add_metric(labels, buckets, sum_value=total)
    return metric


def exposed(families: Iterable[Family]) -> bytes:
    """Write the figures for a scraper with Prometheus' own client, without global state."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(list(families)))
    return generate_latest(registry)
