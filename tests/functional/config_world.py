"""A configuration of everything, and the command that carries it in a file."""

import io
from pathlib import Path

from django.core.management import CommandError, call_command

from crontasks.models import CronInstance, NoticeRecipient, NoticeRule
from integration.models import (
    ChannelTarget,
    Endpoint,
    EnterpriseService,
    ExternalSystem,
    ObjectStructure,
    Provider,
    PublishChannel,
    Queue,
)

SECRET = "s3cret-word"


class Config:
    """The command with its file, and what it said."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "sluice.yaml"

    def __call__(self, verb: str, *options: str, text: str | None = None) -> tuple[int, str]:
        if text is not None:
            self.path.write_text(text)
        said, complained = io.StringIO(), io.StringIO()
        arguments = [verb, *options] if verb == "export" else [verb, str(self.path), *options]
        code = 0
        try:
            call_command("config", *arguments, stdout=said, stderr=complained)
        except SystemExit as end:
            code = int(end.code or 0)
        except CommandError as problem:
            code = problem.returncode
            complained.write(str(problem))
        return code, said.getvalue() + complained.getvalue()


def a_whole_configuration() -> None:
    provider = Provider.objects.create(
        name="plant",
        bootstrap_servers="127.0.0.1:1",
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        username="sluice",
        password=SECRET,
        ca_certificate="-----BEGIN-----\nabc\n-----END-----\n",
        properties={"client.id": "yes", "socket.timeout.ms": 1000},
    )
    system = ExternalSystem.objects.create(name="eam", description="Anlagen: “no” … 12:30")
    structure = ObjectStructure.objects.create(
        name="assets", key_paths=["$.assetnum"], json_schema={"type": "object", "minimum": 1.5}
    )
    service = EnterpriseService.objects.create(interface="MXASSET", structure=structure)
    Endpoint.objects.create(
        name="eam-in",
        system=system,
        endpoint_type="http",
        properties={"url": "https://eam.example/in"},
        rate_per_second=2.5,
        open_after=7,
        idempotent=True,
    )
    made: dict[str, Queue] = {}
    # The last by name is needed by the first.
    for name, fields in {
        "zz-errors": {"kind": "sequential", "is_error_queue": True},
        "assets": {"kind": "sequential", "default_service": service, "system": system},
        "orders": {
            "kind": "continuous",
            "retry_delays_seconds": [1, 2.5],
            "dedupe": True,
            "group_protocol": "classic",
            "group_id": "plant.orders",
        },
    }.items():
        made[name] = Queue.objects.create(
            name=name, topic=name, provider=provider, start_from="beginning", **fields
        )
    Queue.objects.filter(name="assets").update(error_queue=made["zz-errors"])
    broker = Provider.objects.create(
        name="plant-jms",
        kind="jms",
        bootstrap_servers="127.0.0.1:5671,127.0.0.2:5671",
        security_protocol="SASL_SSL",
        username="reader",
        password=SECRET,
    )
    Queue.objects.create(
        name="changes",
        topic="plant.changes",
        provider=broker,
        kind="continuous",
        start_from="beginning",
        subscription="sluice",
        selector="JMSType = 'order'",
    )
    CronInstance.objects.create(
        name="Typed",
        task="typed",
        crontab="30 2 * * mon-fri",
        time_zone="Europe/Berlin",
        parameters={"name": "ours", "token": SECRET},
    )
    NoticeRecipient.objects.create(
        name="chat", way="slack", url=f"https://chat.example/{SECRET}", description="the team"
    )
    NoticeRule.objects.create(
        name="assets-lag",
        kind="LAG",
        queue=made["assets"],
        at_least=500,
        recipients=["chat"],
        quiet_hours="22:00-06:00",
        time_zone="Europe/Berlin",
    )


def a_channel_with_targets() -> None:
    """On top of the whole configuration, whose endpoint one of them delivers to."""
    structure, endpoint = ObjectStructure.objects.get(), Endpoint.objects.get()
    provider = Provider.objects.get(name="plant")
    channel = PublishChannel.objects.create(
        name="MXPO Interface",
        structure=structure,
        key_path="$.ponum",
        search_paths=["$.vendor"],
        keeps_payload=True,
    )
    other = ExternalSystem.objects.create(
        name="wms", enabled=False, requests_per_minute=60, legacy_door=True
    )
    out = Queue.objects.create(
        name="out",
        topic="out",
        provider=provider,
        kind="continuous",
        direction="outbound",
        start_from="end",
        endpoint=endpoint,
        concurrency=4,
    )
    read = Queue.objects.create(
        name="read",
        topic="read",
        provider=provider,
        kind="sequential",
        direction="outbound",
        start_from="end",
    )
    targets = channel.targets
    targets.create(system=endpoint.system, queue=out, endpoint=endpoint)
    targets.create(system=other, queue=read, enabled=False)


def empty_database() -> None:
    NoticeRule.objects.all().delete()
    NoticeRecipient.objects.all().delete()
    CronInstance.objects.all().delete()
    ChannelTarget.objects.all().delete()
    PublishChannel.objects.all().delete()
    Queue.objects.update(error_queue=None, endpoint=None)
    for model in (Endpoint, Queue, EnterpriseService, ObjectStructure, ExternalSystem, Provider):
        model._default_manager.all().delete()
