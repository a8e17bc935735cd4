"""`manage.py config`: export, plan and apply; every mistake with its line; audit; hostile files."""

from pathlib import Path
from typing import Any

import pytest

from crontasks.configfile import reading
from crontasks.configfile.facts import export
from crontasks.configfile.reading import ConfigFileError
from crontasks.configfile.sections import NAMES
from crontasks.models import CronInstance
from integration.models import (
    ConfigurationChange,
    Endpoint,
    ExternalSystem,
    Provider,
    Queue,
    QueuePartition,
)
from integration.sealed import unseal
from tests.functional.config_world import (
    SECRET,
    Config,
    a_channel_with_targets,
    a_whole_configuration,
    empty_database,
)
from tests.support.rows import a_message_to_send, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db, pytest.mark.usefixtures("unanswered")]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(tmp_path)


def test_an_export_applied_to_an_empty_database_exports_the_same_bytes(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_whole_configuration()
    a_channel_with_targets()
    _, told = config("export", "--secrets", "env")
    assert SECRET not in told
    assert "${ENV:SLUICE_CONFIG_PROVIDERS_PLANT_PASSWORD}" in told
    empty_database()
    monkeypatch.setenv("SLUICE_CONFIG_PROVIDERS_PLANT_PASSWORD", SECRET)
    monkeypatch.setenv("SLUICE_CONFIG_PROVIDERS_PLANT_JMS_PASSWORD", SECRET)
    monkeypatch.setenv("SLUICE_CONFIG_CRON_INSTANCES_TYPED_PARAMETERS_TOKEN", SECRET)
    chat = f"https://chat.example/{SECRET}"
    monkeypatch.setenv("SLUICE_CONFIG_NOTICE_RECIPIENTS_CHAT_URL", chat)

    assert config("plan", text=told)[0] == 2
    assert not Provider.objects.exists()
    code, said = config("apply", "--reason", "the move", "--user", "ada")

    assert code == 0, said
    assert config("export", "--secrets", "env")[1] == told
    assert {one.password for one in Provider.objects.all()} == {SECRET}
    changes = Queue.objects.get(name="changes")
    assert (changes.provider.is_jms, changes.subscription) == (True, "sluice")
    assert changes.selector == "JMSType = 'order'"
    assert unseal(CronInstance.objects.get(task="typed").parameters["token"]) == SECRET
    assert Queue.objects.get(name="assets").error_queue.name == "zz-errors"
    assert config("plan") == (0, "No changes.\n")
    assert config("apply") == (0, "No changes.\n")
    rows = list(ConfigurationChange.objects.all())
    assert {(row.actor, row.reason) for row in rows} == {("config apply (ada)", "the move")}
    assert SECRET not in str([(row.before, row.after) for row in rows])


def test_secrets_that_are_kept_stay_as_they_are(config: Config) -> None:
    a_whole_configuration()
    text = config("export")[1]
    assert "password: kept" in text
    assert config("plan", text=text) == (0, "No changes.\n")
    code, said = config("plan", text=text.replace("password: kept", "password: s3cret-word"))
    assert code == 1
    assert "providers plant, password: " in said
    assert "${ENV:NAME}" in said
    code, said = config("plan", text=text.replace("password: kept", "password: ${ENV:NOT_SET}"))
    assert "NOT_SET" in said
    own = text.replace("password: kept", "password: ${ENV:SLUICE_SECRET_KEY}")
    assert "is this installation's own" in config("plan", text=own)[1]
    code, said = config("plan", text=text.replace("password: kept", "password: ''"))
    assert code == 2
    assert "password: 'kept' -> ''" in said


def test_a_plan_tells_field_by_field_and_applying_does_exactly_that(config: Config) -> None:
    a_whole_configuration()
    text = config("export")[1].replace("  batch_size: 500\n", "  batch_size: 50\n")
    text = text.replace("- name: eam\n", "- name: eam\n  enabled: false\n", 1).replace(
        "  enabled: true\n  requests_per_minute", "  requests_per_minute"
    )
    code, planned = config("plan", text=text)
    assert code == 2, planned
    assert planned.count("batch_size: 500 -> 50") == 4
    assert "~ external system eam\n    enabled: True -> False\n" in planned
    assert "0 create, 5 change, 0 remove: to be done." in planned
    assert not ConfigurationChange.objects.exists()
    code, done = config("apply")
    assert code == 0
    # Below it stands that the cluster of its queues could not be asked for their topics.
    assert done.startswith(planned.replace("to be done", "done"))
    assert ConfigurationChange.objects.count() == 5
    assert config("apply")[1] == "No changes.\n"


def test_of_a_field_with_members_those_that_change_are_told(config: Config) -> None:
    begun = "format: 1\nproviders:\n- name: a\n  bootstrap_servers: a:1\n  properties: {client.id: "
    assert config("apply", text=f"{begun}x, linger.ms: 5}}\n")[0] == 0
    said = config("plan", text=f"{begun}y, linger.ms: 5}}\n")[1]
    assert "    properties.client.id: 'x' -> 'y'\n" in said
    assert "linger.ms" not in said


def test_no_member_is_cut_however_long_the_field_is(config: Config) -> None:
    begun = "format: 1\nsystems: [{name: s}]\nendpoints:\n- name: e\n  system: s\n"
    begun += "  endpoint_type: http\n  properties:\n"
    url = f"https://partner.example/{'a' * 150}"
    text = f"{begun}    url: {url}\n    method: PUT\n    private_network: true\n"
    said = config("apply", text=text)[1]
    for line in (f"url: '{url}'", "method: 'PUT'", "private_network: True"):
        assert f"    properties.{line}\n" in said
    said = config("plan", text=text.replace(url, f"{url}b"))[1]
    assert f"    properties.url: '{url}' -> '{url}b'\n" in said


def test_a_provider_whose_topics_could_not_be_looked_at_is_named(config: Config) -> None:
    begun = "format: 1\nproviders:\n- name: away\n  bootstrap_servers: 127.0.0.1:1\nqueues:\n"
    queue = "- name: {0}\n  topic: {0}\n  provider: away\n  kind: sequential\n  start_from: end\n"
    code, said = config("apply", text=begun + "".join(map(queue.format, ("a", "b"))))
    assert code == 0
    assert said.count("provider away: its topics were not looked at. BROKER_UNREACHABLE") == 1


def test_of_what_is_new_only_what_somebody_said_is_told(config: Config) -> None:
    text = "format: 1\nsystems:\n- name: other\n  enabled: true\n"
    _, planned = config("plan", text=text)
    fields = [line.split(":")[0].strip() for line in planned.splitlines()[1:]]
    assert fields[:2] == ["name", "enabled"]
    assert "description" not in fields
    assert "(--all shows them)" in planned
    _, whole = config("plan", "--all")
    assert "    description: ''\n" in whole
    assert "--all" not in whole
    _, done = config("apply")
    assert done == planned.replace("to be done", "done")
    assert ExternalSystem.objects.filter(name="other").exists()


def test_what_a_file_leaves_out_stays_unless_it_is_pruned(config: Config) -> None:
    a_whole_configuration()
    text = "format: 1\nsystems:\n  - name: other\nendpoints: []\n"
    code, said = config("apply", text=text)
    assert "1 create, 0 change, 0 remove" in said
    assert Endpoint.objects.exists()
    code, said = config("plan", "--prune")
    assert code == 1
    assert "line 2: systems eam: " in said
    text = "format: 1\nendpoints: []\n"
    assert "- endpoint eam-in" in config("plan", "--prune", text=text)[1]
    assert Endpoint.objects.exists()
    config("apply", "--prune")
    assert not Endpoint.objects.exists()
    assert ExternalSystem.objects.count() == 2


def test_pruning_removes_what_is_needed_only_by_what_goes_too(config: Config) -> None:
    a_whole_configuration()
    emptied = "".join(f"{section}: []\n" for section in NAMES if section != "cron_instances")
    code, said = config("apply", "--prune", text=f"format: 1\n{emptied}")
    assert code == 0, said
    assert "0 create, 0 change, 12 remove: done." in said
    assert not Queue.objects.exists()
    assert not Provider.objects.exists()


def test_pruning_leaves_the_consumers_of_queues(config: Config) -> None:
    a_whole_configuration()
    config("apply", "--prune", text="format: 1\ncron_instances: []\n")
    left = CronInstance.objects.values_list("task", flat=True)
    assert set(left) == {"queue_consumer", "error_queue_consumer"}


def test_every_mistake_is_told_at_once_with_its_line_and_nothing_is_changed(
    config: Config,
) -> None:
    text = """format: 1
systems:
  - name: eam
    enabled: perhaps
    colour: red
  - name: eam
  - description: nameless
queues:
  - name: assets
    provider: nowhere
    topic: assets
    kind: sideways
    batch_size: 0
  - name: orders
    topic: 12
cron_instances:
  - name: Nightly
    task: typed
    crontab: 61 * * * *
    parameters: {days: 99}
"""
    code, said = config("apply", text=text)
    assert code == 1
    for told in (
        "line 4: systems eam, enabled: ",
        "line 5: systems eam, colour: ",
        "line 6: systems eam: This name is given twice.",
        "line 7: systems: ",
        "line 10: queues assets, provider: There is no provider called “nowhere”.",
        "line 15: queues orders, topic: ",
        "line 19: cron_instances Nightly, crontab: ",
        "CONFIG_FILE: The file has ",
    ):
        assert told in said, said
    assert not ExternalSystem.objects.exists()
    assert not ConfigurationChange.objects.exists()


def test_fields_are_judged_as_their_forms_do(config: Config) -> None:
    a_whole_configuration()
    text = """format: 1
providers:
  - name: plant
    security_protocol: SASL_SSL
    sasl_mechanism: ''
queues:
  - name: assets
    kind: sideways
    batch_size: 0
    ordering: key
  - name: orders
    strict_order: true
  - name: zz-errors
    error_queue: zz-errors
cron_instances:
  - name: Typed
    parameters: {days: 99}
structures:
  - name: assets
    json_schema: {"items": {"pattern": "a(?!b)"}}
"""
    code, said = config("plan", text=text)
    assert code == 1
    for told in (
        "line 5: providers plant, sasl_mechanism: ",
        "line 8: queues assets, kind: ",
        "line 9: queues assets, batch_size: ",
        "line 12: queues orders, strict_order: ",
        "line 14: queues zz-errors, error_queue: ",
        "line 17: cron_instances Typed, parameters: ",
        "line 20: structures assets, json_schema: ",
        "(SCHEMA_UNUSABLE)",
    ):
        assert told in said, said


def test_what_refers_to_an_entry_with_a_mistake_has_none_for_that(config: Config) -> None:
    text = """format: 1
providers:
  - name: plant
    bootstrap_servers: a:1
    password: ${ENV:NOT_SET_ANYWHERE}
queues:
  - {name: errors, provider: plant, topic: errors, is_error_queue: true, start_from: beginning}
  - {name: assets, provider: plant, topic: assets, error_queue: errors, start_from: beginning}
  - {name: orders, provider: elsewhere, topic: orders, start_from: beginning}
"""
    code, said = config("plan", text=text)
    assert code == 1
    assert "line 5: providers plant, password: " in said
    assert "line 9: queues orders, provider: " in said
    assert "CONFIG_FILE: The file has 2 mistakes" in said


@pytest.mark.parametrize("topic", ["jms/maximo/int/queues/sqin", "a b", "..", "é"])
def test_a_name_that_no_topic_can_have_is_refused(config: Config, topic: str) -> None:
    a_whole_configuration()
    text = f"""format: 1
queues:
  - {{name: sqin, provider: plant, topic: {topic}, kind: sequential, start_from: beginning}}
"""
    assert "line 3: queues sqin, topic: " in config("plan", text=text)[1]


def test_where_reading_begins_and_the_topic_stay_once_a_queue_has_a_position(
    config: Config,
) -> None:
    a_whole_configuration()
    queue = Queue.objects.get(name="orders")
    QueuePartition.objects.create(queue=queue, partition=0, topic_uuid="u", next_offset=1)
    text = "format: 1\nqueues:\n  - name: orders\n    start_from: end\n"
    assert "line 4: queues orders, start_from: " in config("plan", text=text)[1]
    text = "format: 1\nqueues:\n  - name: orders\n    topic: other\n"
    assert "line 4: queues orders, topic: " in config("plan", text=text)[1]


def test_a_queues_consumer_can_have_another_name(config: Config) -> None:
    a_whole_configuration()
    text = config("export")[1].replace("name: Consume assets", "name: Read the assets")
    assert config("apply", text=text)[0] == 0
    assert config("export")[1].count("Read the assets") == 1
    assert CronInstance.objects.filter(queue__name="assets").count() == 1


BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
)


@pytest.mark.parametrize(
    ("content", "line", "told"),
    [
        (b"", 1, "Begin with"),
        (b"- a", 1, "Begin with"),
        (b"format: 2", 1, "this version reads no other"),
        (b"format: 1\nqueus: []", 2, "There is no such section"),
        (b"format: 1\nqueues: {}", 2, "Write a list"),
        (b"format: 1\nqueues: [a]", 2, "Write fields with values"),
        (BOMB.encode(), 1, "Anchors and aliases"),
        (b"format: 1\nqueues: !!python/object:os.system {}", 2, "Tags"),
        (b"format: !!int 1", 1, "Tags"),
        (b"format: 1\n---\nformat: 1", 2, "one document"),
        (b"format: 1\nformat: 1", 2, "given twice"),
        (b"format: 1\nqueues:\n - name: a\n   name: b", 4, "given twice"),
        (b'format: 1\nsystems:\n - name: "a\\0b"', 3, "no text in the database"),
        (b'format: 1\nsystems:\n - name: "\\ud800"', 3, "no text in the database"),
        (b"format: 1\nsystems:\n - 1: a", 3, "A name before the colon"),
        (b"format: 1\nsystems:\n - <<: a", 3, "A name before the colon"),
        (b"format: 1\nsystems:\n - name: .nan", 3, "has to be finite"),
        (b"format: 1\nsystems:\n - name: 2026-01-01", 3, "reads as a date"),
        (b"format: 1\nsystems:\n - name: " + b"9" * 5_000, 3, "cannot be read"),
        (b"format: 1\nsystems: " + b"[" * 100, 2, "Deeper than"),
        (b"format: 1\nsystems:\n - name: \xff", 3, "not UTF-8"),
        (b"format: 1\nsystems:\n - name: a\x00b", 1, "no YAML"),
        (b"format: 1\n  x: [", 2, "no YAML"),
        (b"format: 1\n#" + b"x" * reading.MAX_BYTES, 1, "at most"),
    ],
)
def test_a_hostile_or_spoilt_file_is_refused_with_its_line(
    content: bytes, line: int, told: str
) -> None:
    with pytest.raises(ConfigFileError) as caught:
        reading.read(content, ("queues", "systems"))
    mistakes = caught.value.mistakes
    assert any(one.line == line and told in one.text for one in mistakes), mistakes


def test_an_export_reads_back_as_it_was_written() -> None:
    a_whole_configuration()
    _, entries = reading.read(export().encode(), NAMES)["providers"]
    assert entries[0].values["ca_certificate"].value == "-----BEGIN-----\nabc\n-----END-----\n"
    assert entries[0].values["properties"].value == {"client.id": "yes", "socket.timeout.ms": 1000}


def test_a_file_that_is_not_there_is_told(config: Config) -> None:
    code, said = config("plan")
    assert code == 1
    assert "No such file" in said


def test_numbers_keep_their_kind(config: Config) -> None:
    a_whole_configuration()
    text: Any = "format: 1\nqueues:\n  - name: orders\n    retry_delays_seconds: [1, 3]\n"
    assert "[1, 2.5] -> [1, 3]" in config("apply", text=text)[1]


@pytest.mark.parametrize(
    "entry",
    [
        "queues:\n  - name: [a]\n",
        "queues:\n  - name: a\n    error_queue: [b]\n  - name: [b]\n",
        "cron_instances:\n  - name: a\n    task: [b]\n    queue: {}\n",
        "providers:\n  - name: a\n    bootstrap_servers: a:1\n    properties: [[1]]\n",
        "providers:\n  - name: a\n    bootstrap_servers: a:1\n    properties: 7\n",
    ],
)
def test_a_list_where_a_name_belongs_is_told_with_its_line(config: Config, entry: str) -> None:
    code, said = config("plan", text=f"format: 1\n{entry}")
    assert code == 1
    assert "line 3" in said or "line 4" in said or "line 5" in said


def test_pruning_keeps_a_queue_whose_messages_wait_in_the_outbox(config: Config) -> None:
    queue = a_queue_row(direction="outbound", start_from="end")
    a_message_to_send(queue, strict_queue=queue.pk)
    code, said = config("apply", "--prune", text="format: 1\nqueues: []\n")
    assert code == 1
    assert "outbox" in said
    assert Queue.objects.filter(pk=queue.pk).exists()
