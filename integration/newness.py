"""The rule by which a document replaces another, in SQL: for the object store and for imports.

Over the stored row `o` and the new row `excluded` of INSERT … ON CONFLICT (structure_id, key).
"""

from typing import Final

# The one rule of newness. Versions decide where both sides have one and they differ; else the
# arrival number does. An arrival number never goes down, also where an older message wins by
# its version: a message without one that arrived between the two must not win then.
NEWER: Final = """
CASE WHEN o.sort_version <> excluded.sort_version THEN o.sort_version < excluded.sort_version
ELSE (o.arrival_batch, o.arrival_index) < (excluded.arrival_batch, excluded.arrival_index) END
"""
ARRIVED_LATER: Final = (
    "(o.arrival_batch, o.arrival_index) < (excluded.arrival_batch, excluded.arrival_index)"
)
DOCUMENT: Final = "document = excluded.document, xml = excluded.xml, "
REST: Final = f"""
  sort_version = excluded.sort_version, version = o.version + 1,
  arrival_batch = CASE WHEN {ARRIVED_LATER} THEN excluded.arrival_batch ELSE o.arrival_batch END,
  arrival_index = CASE WHEN {ARRIVED_LATER} THEN excluded.arrival_index ELSE o.arrival_index END,
  message_id = excluded.message_id, topic_uuid = excluded.topic_uuid,
  partition = excluded.partition, "offset" = excluded."offset", updated_at = clock_timestamp()
WHERE {NEWER}
RETURNING key
"""
