"""The SQL of what a lease remembers of Kafka: the last batch there, its rows, the cluster."""

from typing import Final

WATERMARK: Final = (
    "SELECT watermark FROM integration_relaylease WHERE id = %(lease)s AND epoch = %(epoch)s"
)
WATERMARK_BEFORE: Final = (
    "SELECT watermark_before FROM integration_relaylease WHERE id = %(lease)s AND epoch = %(epoch)s"
)
TOPICS_AT_STAKE: Final = """
SELECT DISTINCT o.topic FROM integration_relaylease l
JOIN integration_outboxrow o ON o.id = ANY(l.watermark_rows || l.batch_rows)
WHERE l.id = %(lease)s AND l.epoch = %(epoch)s
"""
LAST_SENT: Final = """
SELECT o.id, o.topic, o.partition, o.key, o.value, o.headers::text, o.timestamp_ms,
  (extract(epoch FROM o.published_at) * 1000)::bigint
FROM integration_relaylease l JOIN integration_outboxrow o ON o.id = ANY(l.watermark_rows)
WHERE l.id = %(lease)s AND l.epoch = %(epoch)s
  AND o.state = 'PUBLISHED' AND o.batch::text = l.watermark
ORDER BY o.id
"""
SEND_AGAIN: Final = """
UPDATE integration_outboxrow o SET state = 'PENDING', batch = NULL, published_at = NULL
FROM integration_relaylease l
WHERE l.id = %(lease)s AND l.epoch = %(epoch)s AND o.id = ANY(%(ids)s::bigint[])
  AND o.state = 'PUBLISHED' AND o.batch::text = l.watermark
"""
NOTE_WATERMARK: Final = (
    "UPDATE integration_relaylease "
    "SET watermark = %(text)s, watermark_before = '', watermark_rows = NULL "
    "WHERE id = %(lease)s AND epoch = %(epoch)s"
)
CLUSTER: Final = (
    "SELECT cluster FROM integration_relaylease WHERE id = %(lease)s AND epoch = %(epoch)s"
)
PROVIDER_AS_OF: Final = (
    "SELECT provider_as_of FROM integration_relaylease WHERE id = %(lease)s AND epoch = %(epoch)s"
)
NOTE_CLUSTER: Final = (
    "UPDATE integration_relaylease SET cluster = %(name)s, provider_as_of = %(as_of)s "
    "WHERE id = %(lease)s AND epoch = %(epoch)s"
)
