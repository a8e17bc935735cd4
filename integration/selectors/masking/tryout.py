"""Trying a masking rule on a pasted message, before anything is stored."""

from dataclasses import dataclass

from integration.envelope import read_unwrapped
from integration.masking.mask import Part, mask_of
from integration.models import MaskingRule
from integration.registries.reading import plain_reading_of
from integration.selectors.failures.payloads import PayloadView, show
from integration.selectors.setup.tryout import MAX_BYTES


@dataclass(frozen=True, slots=True)
class Tryout:
    """What is seen of a sample; `problem`: why nothing of it is."""

    view: PayloadView | None = None
    problem: str = ""


def try_out(sample: str, rule: MaskingRule) -> Tryout:
    """Show the sample as a page of the rule's queue would; of no queue, out of a retry wrapper."""
    if rule.part != Part.PAYLOAD:
        return Tryout(
            problem="A sample is a payload: rules for headers and keys cannot be tried here."
        )
    if not sample.strip():
        return Tryout(problem="Paste a message into the sample first.")
    if len(sample.encode()) > MAX_BYTES:
        return Tryout(problem=f"The sample is longer than {MAX_BYTES // 1_024} KiB; shorten it.")
    reading = read_unwrapped if rule.queue is None else plain_reading_of(rule.queue)
    return Tryout(show(sample.encode(), [], reading, mask=mask_of(frozenset({rule.rule}))))
