"""The limit of posts a minute: counted for all processes together, in Valkey itself."""

import uuid

import pytest

from devstack.server import Server
from integration.http_api.errors import TooManyRequestsError
from integration.http_api.pace import count_post
from tests.support.http_api import a_partner, problem

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def a_number() -> int:
    return uuid.uuid4().int % 10**9


def test_beyond_the_number_a_minute_posts_are_refused_until_it_is_over(valkey: Server) -> None:
    system = a_number()
    for _ in range(3):
        count_post(system, 3, lambda: 6_000.0)
    with pytest.raises(TooManyRequestsError) as caught:
        count_post(system, 3, lambda: 6_020.0)
    assert caught.value.retry_after.total_seconds() == 41
    count_post(system, 3, lambda: 6_060.0)
    count_post(a_number(), 3, lambda: 6_020.0)


def test_a_partner_is_told_when_to_come_again(valkey: Server) -> None:
    partner = a_partner(requests_per_minute=1)
    answers = [partner.post({}) for _ in range(3)]
    # The minute may have turned once meanwhile, not twice.
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    problem(refused[-1], 429, "TOO_MANY_REQUESTS")
    assert 1 <= int(refused[-1]["Retry-After"]) <= 61


def test_where_no_number_is_set_nobody_is_counted() -> None:
    count_post(a_number(), None)


def test_without_valkey_nobody_is_refused(settings) -> None:
    settings.SLUICE_CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
    for _ in range(3):
        count_post(a_number(), 1)
