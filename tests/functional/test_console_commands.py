"""Commands that pages name are shown as code, wherever they stand."""

import pytest
from django.test import Client
from django.urls import reverse

from console.templatetags.sluice import coded
from devstack.server import Server
from integration.models import Provider
from tests.support.rows import a_person, a_place, a_queue_row

COMMAND = "<code>celery -A config worker -Q celery</code>"


@pytest.mark.servers
@pytest.mark.django_db
def test_a_queue_that_nobody_reads_shows_what_to_start(kafka: Server) -> None:
    provider = Provider.objects.create(name="real", bootstrap_servers=kafka.bootstrap)
    queue = a_queue_row(provider=provider, topic="never-made")
    a_place(queue)
    client = Client()
    client.force_login(a_person("Operators", "otto"))
    for page in ("queue", "flow"):
        shown = client.get(reverse(page, args=[queue.name])).text
        assert COMMAND in shown, page
        assert "`" not in shown, page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Run `a`; then `b`.", "Run <code>a</code>; then <code>b</code>."),
        ("`<b>`", "<code>&lt;b&gt;</code>"),
        ("it`s mine", "it`s mine"),
        ("Run `a`, it`s mine", "Run <code>a</code>, it`s mine"),
    ],
)
@pytest.mark.fast
def test_a_backtick_without_a_second_one_stays(text: str, shown: str) -> None:
    assert coded(text) == shown
