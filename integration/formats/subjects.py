"""The names of subjects, by the three strategies that serializers have."""

from typing import Final

BY_TOPIC: Final = "topic"
BY_RECORD: Final = "record"
BY_BOTH: Final = "topic_record"


def subject_name(subject_by: str, topic: str, record: str) -> str:
    """Return a subject by its strategy; empty for none.

    >>> subject_name("topic_record", "orders", "com.example.Order")
    'orders-com.example.Order'
    """
    names = {BY_TOPIC: f"{topic}-value", BY_RECORD: record, BY_BOTH: f"{topic}-{record}"}
    return names.get(subject_by, "")
