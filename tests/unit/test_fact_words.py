"""What the history of the configuration holds, as people read it."""

import pytest

from console.changes.fact_words import field_words, value_words


@pytest.mark.parametrize(
    ("kind", "field", "value", "told"),
    [
        ("operation", "state", "RUNNING", "State: Running"),
        ("operation", "first_only", True, "Pauses after the first message: on"),
        ("operation", "rate", None, "Messages a second, at most: no limit"),
        ("operation", "rate", 1_200, "Messages a second, at most: 1,200"),
        ("queue", "retry_delay_seconds", 90.0, "First pause: 1 min 30 s"),
        ("queue", "retry_delays_seconds", [10, 60], "Listed pauses: 10 s, 1 min"),
        ("queue", "backoff", "constant", "Growth of the pauses: All equal to the first pause"),
        ("enterpriseservice", "backoff", "", "Pauses of its own: None of its own: those of its"),
        ("enterpriseservice", "max_retries", 3, "Retries: 3"),
        ("queue", "on_gap", "block", "If messages expired unread: Wait for a person's"),
        ("queue", "start_time", "2026-11-21T06:00:00Z", "Since (UTC): 21 November 2026, 06:00:00"),
        ("queue", "system", None, "External system: \N{EN DASH}"),
        ("externalsystem", "enabled", False, "Switched on: off"),
        ("provider", "security_protocol", "SASL_SSL", "Security protocol: SASL_SSL"),
        ("endpoint", "properties", {"url": "http://x", "tries": 3}, "Properties: url: http://x; "),
        ("croninstance", "task", "errors_cleanup", "Cron task: Errors cleanup"),
        (
            "croninstance",
            "overlap",
            "skip",
            "If the previous run is still in progress: Skip the run",
        ),
        ("user", "roles", ["Editors", "Viewers"], "Roles: Editors, Viewers"),
        ("gone_by_now", "some_field", {"a": [1]}, 'Some field: {"a": [1]}'),
    ],
)
def test_a_field_and_what_is_in_it_are_told_in_words(
    kind: str, field: str, value: object, told: str
) -> None:
    assert f"{field_words(field, kind)}: {value_words(value, field, kind)}".startswith(told)


def test_a_long_value_is_cut() -> None:
    assert value_words("x" * 1_000).endswith("x…")
    assert len(value_words("x" * 1_000)) == 401
