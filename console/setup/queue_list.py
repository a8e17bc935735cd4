"""The list of queues as they are set up; how they stand is on the overview."""

from typing import ClassVar

import django_filters
import django_tables2 as tables
from django.db.models import QuerySet
from django_tables2.utils import A

from console.setup.columns import Switched
from console.setup.filters import SwitchFilter, Words
from console.setup.noun import Noun
from console.setup.queue_form import QueueForm
from integration.models import Queue
from integration.selectors.retry_line import retry_line
from integration.selectors.scope import Scope


class QueueTable(tables.Table):
    """The list of queues."""

    name = tables.Column(
        linkify=("queue", [A("name")]),
        attrs={"a": {"class": "fw-bold long"}, "td": {"class": "wide"}},
    )
    enabled = Switched()
    direction = tables.Column()
    kind = tables.Column()
    topic = tables.Column(attrs={"td": {"class": "long"}})
    provider = tables.Column()
    system = tables.Column()
    retries = tables.Column("Retries", accessor="pk", orderable=False)

    class Meta:
        fields = ("name", "enabled", "direction", "kind", "topic", "provider", "system", "retries")

    def render_direction(self, record: Queue) -> str:
        return str(record.direction)

    def render_kind(self, record: Queue) -> str:
        return f"{record.kind} error queue" if record.is_error_queue else str(record.kind)

    def render_retries(self, record: Queue) -> str:
        if record.direction == Queue.Direction.OUTBOUND:
            return ""
        return retry_line(record.retry_policy()).words


class QueueFilter(django_filters.FilterSet):
    """By words in name, topic or description, by kind, direction and switch."""

    words = Words("name", "topic", "description")
    kind = django_filters.ChoiceFilter(
        choices=[("sequential", "sequential"), ("continuous", "continuous")], empty_label="all"
    )
    direction = django_filters.ChoiceFilter(
        choices=[("inbound", "inbound"), ("outbound", "outbound")], empty_label="all"
    )
    enabled = SwitchFilter()

    class Meta:
        model = Queue
        fields: ClassVar[list[str]] = []


def _rows(scope: Scope) -> QuerySet[Queue]:
    found = Queue.objects.filter(scope.within("system"))
    return found.select_related("provider", "system").order_by("name")


QUEUES = Noun(
    one="queue",
    many="queues",
    word="queue",
    title="Queues",
    about="A Kafka topic registered with a direction, a kind and rules for failures. How they "
    "stand right now is on the overview.",
    model=Queue,
    form=QueueForm,
    table=QueueTable,
    filters=QueueFilter,
    rows=_rows,
)
