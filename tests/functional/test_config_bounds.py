"""Values that no field can have, in a configuration file: each is told with its field."""

import pytest

from tests.functional.config_world import Config, a_whole_configuration

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.mark.parametrize(
    "line",
    [
        # Twice this is a time limit of PostgreSQL, which takes none of more than 24 days.
        "handler_timeout_seconds: 2.0e+6",
        "retry_delay_seconds: 1.0e+300",
        "retry_total_seconds: -1",
        "retry_delays_seconds: [30, soon]",
        "retry_delays_seconds: [1.0e+300]",
        "retry_factor: 1.0e+10",
        # In UTC it is the year 10000.
        "start_time: 9999-12-31T23:59:59-12:00",
        "start_time: 0001-01-01T00:00:00+12:00",
    ],
)
def test_what_no_clock_holds_is_told_with_its_field(tmp_path, line: str) -> None:
    a_whole_configuration()
    code, said = Config(tmp_path)(
        "plan", text=f"format: 1\nqueues:\n  - name: orders\n    {line}\n"
    )
    assert code == 1
    assert line.partition(":")[0] in said


@pytest.mark.parametrize(
    ("section", "entry", "line"),
    [
        ("notice_rules", "name: assets-lag", "kind: LAGGING"),
        ("structures", "name: assets", "key_paths: [5]"),
        ("structures", "name: assets", "key_paths: [[$.assetnum]]"),
        ("structures", "name: assets", "key_paths: [null]"),
        ("event_subscriptions", "name: events", "kinds: [[failure.held]]"),
        ("event_subscriptions", "name: events", "kinds: [{failure: held}]"),
    ],
)
def test_a_value_of_another_form_is_told_with_its_field(
    tmp_path, section: str, entry: str, line: str
) -> None:
    a_whole_configuration()
    code, said = Config(tmp_path)("plan", text=f"format: 1\n{section}:\n  - {entry}\n    {line}\n")
    assert code == 1
    assert f"line 4: {section} {entry.removeprefix('name: ')}, {line.partition(':')[0]}: " in said
