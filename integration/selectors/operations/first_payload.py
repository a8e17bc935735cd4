"""The payload of a plan's first message: what people are about to release, edit or delete."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from integration.codec import decode_headers
from integration.selectors.failures.payloads import PayloadView, show
from integration.selectors.operations.blast import Sample
from integration.store import operations as store

# About a screen of it; the failure's own page has the rest.
SHOWN_CHARACTERS: Final = 4_000


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of a record as people read it. `size` is the whole record's, in bytes."""

    sample: Sample
    text: str
    is_hex: bool
    is_cut: bool
    is_absent: bool
    size: int


def first_payload(samples: Sequence[Sample]) -> Beginning | None:
    """What the first message holds now, edited or not, in one query; None where it is gone."""
    if not samples:
        return None
    content = store.contents([samples[0].id]).get(samples[0].id)
    if content is None:
        return None
    return _beginning(samples[0], show(content.record, decode_headers(json.loads(content.headers))))


def _beginning(sample: Sample, view: PayloadView) -> Beginning:
    text = view.pretty or view.raw
    return Beginning(
        sample=sample,
        text=text[:SHOWN_CHARACTERS],
        is_hex=view.is_hex and not view.pretty,
        is_cut=view.is_cut or len(text) > SHOWN_CHARACTERS,
        is_absent=view.is_absent,
        size=view.size,
    )
