"""A JMS broker that somebody tests: whether it can be reached, and lets us in."""

from typing import Final

from django.conf import settings

from integration.amqp.errors import (
    JmsCertificateError,
    JmsError,
    JmsLibraryMissingError,
    JmsRefusedError,
)
from integration.amqp.installed import found
from integration.kafka.examination import Examination, Finding, Section, Verdict
from integration.models import Provider

REACH: Final = "Reach one of its servers"
LOG_IN: Final = "Log in"
CERTIFICATES: Final = "Accept each other's certificates"
ADDRESSES: Final = Finding(
    "Read from its queues and topics",
    Verdict.UNKNOWN,
    "A broker tells that only to whom it hands messages out. The first run of a queue finds out, "
    "and the queue's page shows it.",
    is_needed=False,
)


def connect(provider: Provider) -> None:
    """Connect and log in, and hang up. Raises JmsError, JmsLibraryMissingError."""
    found("opening.connect")(provider, name=f"sluice-{settings.SLUICE_DEPLOYMENT}-test").close()


def examined_jms(provider: Provider) -> Examination:
    """Examine a JMS broker, stored or not. Raises nothing for what is wrong with it."""
    sections = (Section("Connection", _steps(provider)),)
    return Examination(sections, provider.username, title="The broker lets us in")


def _steps(provider: Provider) -> tuple[Finding, ...]:
    ways = [REACH]
    if provider.security_protocol.endswith("SSL"):
        ways.append(CERTIFICATES)
    ways.append(LOG_IN)
    try:
        connect(provider)
    except JmsLibraryMissingError as lacking:
        return (Finding(REACH, Verdict.UNKNOWN, str(lacking)),)
    except JmsError as problem:
        failed = _failed(problem)
        done = ways[: ways.index(failed)] if failed in ways else ways[:1]
        went = [Finding(way, Verdict.OK) for way in done if way != failed]
        return (*went, Finding(failed, Verdict.REFUSED, str(problem)))
    return (*(Finding(way, Verdict.OK) for way in ways), ADDRESSES)


def _failed(problem: JmsError) -> str:
    if isinstance(problem, JmsCertificateError):
        return CERTIFICATES
    return LOG_IN if isinstance(problem, JmsRefusedError) else REACH
