"""The schemas that tracked messages were written by."""

from integration.envelope import read_unwrapped
from integration.models import Queue, RegistrySchema
from integration.registries.reading import Reading, reading_of
from integration.selectors.tracking.rows import TrackRow


def schema_of(track: TrackRow | None) -> RegistrySchema | None:
    """Return the schema of a message in a registry's format, as its registry had it.

    One that was forgotten since is known by its id alone.
    """
    if track is None or track.schema_id is None:
        return None
    queue = Queue.objects.select_related("provider").filter(pk=track.queue_id).first()
    if queue is None:
        return RegistrySchema(schema_id=track.schema_id)
    rows = RegistrySchema.objects.filter(
        provider=queue.provider_id,
        registry=queue.provider.registry_url.rstrip("/"),
        schema_id=track.schema_id,
    )
    return rows.first() or RegistrySchema(schema_id=track.schema_id)


def reading_for(track: TrackRow | None) -> Reading:
    """Return how the payload of a tracked message is read for people.

    Where its queue is not known, a retry wrapper is one whatever queue it was.
    """
    if track is None:
        return read_unwrapped
    queue = Queue.objects.select_related("provider").filter(pk=track.queue_id).first()
    return read_unwrapped if queue is None else reading_of(queue)
