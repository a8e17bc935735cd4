"""The alert rules and the dashboard ask for figures that /metrics gives, by labels they have."""

import re
from collections.abc import Mapping

import pytest
import yaml
from django.test import Client
from django.utils import timezone

from deploy.monitoring.expressions import expressions
from devstack import paths
from integration.delivery.tally import Tally
from integration.models import Endpoint
from integration.policy.histograms import CALL_SECONDS, Histogram
from integration.store import tallies
from tests.support.partners import an_endpoint
from tests.support.rows import a_blocked_queue, a_queue_row, some_live_processes

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
RULES = yaml.safe_load((paths.ROOT / "deploy" / "monitoring" / "alerts.yml").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
ASKED = {
    **{name: rule["expr"] for name, rule in ALERTS.items()},
    **{f"{title} {number}": expr for number, (title, expr) in enumerate(expressions())},
}
SELECTOR = re.compile(r"(sluice_\w+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")
SHOWN = re.compile(r"\$labels\.(\w+)")


@pytest.fixture
def exposed(client: Client) -> Mapping[str, set[str]]:
    """The labels of each sample that /metrics has when there is something of everything."""
    queue, place, _ = a_blocked_queue()
    place.high_watermark, place.oldest_waiting_at = place.next_offset + 1, timezone.now()
    place.save()
    a_queue_row("continuous", direction="outbound", endpoint=an_endpoint())
    some_live_processes()
    tally = Tally()
    tally.endings["HOLD"] = 1
    tally.latency.add_all([0.1])
    tally.calls[Endpoint.objects.get().pk] = Histogram(CALL_SECONDS)
    tallies.add(queue.pk, tally)
    found: dict[str, set[str]] = {}
    for line in client.get("/metrics").text.splitlines():
        if line.startswith("# TYPE "):
            found.setdefault(line.split()[2], set())
        elif not line.startswith("#"):
            name, _, labels = line.partition(" ")[0].partition("{")
            found.setdefault(name, set()).update(LABEL.findall(labels))
    return found


def test_they_ask_for_what_there_is(exposed: Mapping[str, set[str]]) -> None:
    unknown = {}
    for name, expr in ASKED.items():
        asked = SELECTOR.findall(expr)
        known = {"job"}.union(*(exposed.get(metric, set()) for metric, _ in asked))
        labels = {label for _, matchers in asked for label in LABEL.findall(matchers)}
        labels |= {one.strip() for group in GROUPED.findall(expr) for one in group.split(",")} - {
            ""
        }
        missing = [metric for metric, _ in asked if metric not in exposed]
        if missing or labels - known:
            unknown[name] = (missing, labels - known)
    assert unknown == {}
    assert len(ASKED) > 30


def test_every_alert_names_only_labels_that_it_has(exposed: Mapping[str, set[str]]) -> None:
    wrong = {
        name: set(SHOWN.findall(rule["annotations"]["summary"]))
        - set().union(*(exposed[metric] for metric, _ in SELECTOR.findall(rule["expr"])))
        for name, rule in ALERTS.items()
        if SELECTOR.search(rule["expr"])
    }
    assert {name: labels for name, labels in wrong.items() if labels} == {}


def test_every_alert_says_what_to_do() -> None:
    assert [
        name
        for name, rule in ALERTS.items()
        if not (rule["annotations"]["action"] and rule["labels"]["severity"])
    ] == []
