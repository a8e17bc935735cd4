"""Clusters that do not answer: where a test asks no other, nobody waits for them in earnest."""

import pytest

from integration.kafka import admin, examination, facts, listeners, looks

MOMENT_SECONDS = 0.3
# For what only tells why it does not answer once the port was reached, also on a busy machine.
WHILE_SECONDS = 5.0


def wait_a_moment(monkeypatch: pytest.MonkeyPatch, seconds: float = MOMENT_SECONDS) -> None:
    """Give questions to a cluster up so soon; for where each one goes unanswered."""
    for module in (admin, facts, looks):
        monkeypatch.setattr(module, "ANSWER_SECONDS", seconds)
    for name in ("GREETING_SECONDS", "SENT_ON_SECONDS"):
        monkeypatch.setattr(examination, name, seconds)
    if seconds == WHILE_SECONDS:
        # Here the port answers, on a busy machine after a while.
        monkeypatch.setattr(listeners, "ASK_SECONDS", 30.0)


@pytest.fixture
def unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cluster answers in this test, and none is waited for."""
    wait_a_moment(monkeypatch)
