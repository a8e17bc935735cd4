"""What masking rules hide of tracked messages: keys, and the ids that tracking took from payloads.

Ids are looked up by the paths that services and channels have now.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from integration.masking.mask import HIDDEN, Mask
from integration.models import EnterpriseService, PublishChannel, Queue
from integration.selectors.masking.rules import masks
from integration.selectors.tracking.rows import TrackRow

COLUMNS: Final = ("external_id", "search_a", "search_b")

Paths = Mapping[str, Sequence[tuple[str, ...]]]
"""The paths of a message's ids, in the order of COLUMNS, by the name of its service or channel.

More than once where a service and a channel have one name.
"""


def masked(rows: Sequence[TrackRow]) -> list[TrackRow]:
    """The same rows, without what is hidden; in one query, and three more where there are rules."""
    rules = masks()
    if not rules.rules or not rows:
        return list(rows)
    systems = dict(
        Queue.objects.filter(pk__in={row.queue_id for row in rows}).values_list("pk", "system")
    )
    paths = _paths({row.interface for row in rows})
    return [
        _covered(row, rules.of(row.queue_id, systems.get(row.queue_id), (row.interface,)), paths)
        for row in rows
    ]


def mask_of(row: TrackRow | None) -> Mask:
    """The mask of a tracked message; of one that was not tried yet, of all that may be meant."""
    rules = masks()
    if row is None:
        return rules.of(None, None, ())
    system = Queue.objects.filter(pk=row.queue_id).values_list("system", flat=True).first()
    return rules.of(row.queue_id, system, (row.interface,))


def _covered(row: TrackRow, mask: Mask, paths: Paths) -> TrackRow:
    if mask.is_empty:
        return row
    hidden = _hidden(mask, paths.get(row.interface, ()))
    external_id, search_a, search_b = (
        HIDDEN if column in hidden and getattr(row, column) else getattr(row, column)
        for column in COLUMNS
    )
    return replace(
        row,
        key=mask.key_text(row.key),
        external_id=external_id,
        search_a=search_a,
        search_b=search_b,
    )


def hidden_columns(mask: Mask, names: Sequence[str]) -> list[str]:
    """The columns of messages of these services and channels that may hold a masked value.

    Without names of any of them.
    """
    paths = [one for of_name in _paths(names or _names()).values() for one in of_name]
    key = ["key"] if mask.key is not None else []
    return key + _hidden(mask, paths)


def _hidden(mask: Mask, paths: Sequence[tuple[str, ...]]) -> list[str]:
    """The columns that may hold a masked value; all of them where nothing tells."""
    if not mask.hides_payload:
        return []
    if not paths:
        return list(COLUMNS)
    return [
        column for place, column in enumerate(COLUMNS) if any(mask.covers(p[place]) for p in paths)
    ]


def searched(
    queues: Iterable[tuple[int, int | None]],
) -> tuple[list[int], Mapping[str, list[str]]]:
    """What is searched without an answer that tells a masked value, where there are rules.

    Of these queues, each with its system, those by whose keys nothing is found; and by column the
    services and channels by whose ids something is, whatever queue a rule is limited to. Of one
    that is gone nobody knows what its ids were.
    """
    rules = masks()
    if not rules.of(None, None, ()).hides_payload:
        return rules.keyless(queues), {}
    names = _names()
    paths = _paths(names)
    columns: dict[str, list[str]] = {column: [] for column in COLUMNS}
    for name in sorted(names):
        hidden = _hidden(rules.of(None, None, (name,)), paths.get(name, ()))
        for column in columns.keys() - hidden:
            columns[column].append(name)
    return rules.keyless(queues), columns


def _names() -> set[str]:
    """Every service and channel: each may have ids of its own."""
    services = EnterpriseService.objects.values_list("interface", flat=True)
    channels = PublishChannel.objects.values_list("name", flat=True)
    return {*services, *channels}


def _paths(names: Iterable[str]) -> Paths:
    wanted = list(names)
    columns = ("external_id_path", "search_paths")
    services = EnterpriseService.objects.filter(interface__in=wanted)
    channels = PublishChannel.objects.filter(name__in=wanted)
    found: dict[str, list[tuple[str, ...]]] = {}
    for name, external, search in [
        *channels.values_list("name", *columns),
        *services.values_list("interface", *columns),
    ]:
        found.setdefault(name, []).append(tuple([external, *map(str, search), "", ""][:3]))
    return found
