"""A new partner's queue: the form of all queues, with what has a good default folded away."""

from collections.abc import Mapping
from typing import Final

from crispy_forms.layout import HTML, Field, Layout

from console.forms.setup_form import Part, names_in
from console.setup.queues import fields as words
from console.setup.queues.form import FOLD, QueueForm

ASKED: Final[Mapping[str, Part]] = {
    "part-queue": ("Queue", "", ("name", "system", "default_service", "direction")),
    "part-topic": ("Topic", "", ("provider", "topic_from", "topic", "kind")),
    "part-start": words.PARTS["part-start"],
}
MORE: Final = "More settings: retries, limits, error queue"
DEFAULTS: Final = (
    '<p class="text-secondary">Each has a default that suits most queues. All except the number of '
    "partitions can be changed later, while the queue is in use.</p>"
)


class GuidedQueueForm(QueueForm):
    """Name, system, service, topic, order and start are asked; the rest waits in one fold.

    The parts keep their ids, so that their effects are shown as on the queues' own page. The
    provider is asked for only when the path has none, since its first step chose it.
    """

    def lay_out(self) -> None:
        folded = self._folded()
        asked = [
            self._with_effect(css_id, (title, sentence, [n for n in names if n not in folded]))
            for css_id, (title, sentence, names) in ASKED.items()
        ]
        rest = [self._with_effect(css_id, part) for css_id, part in self._rest(folded)]
        is_open = " open" if self.errors.keys() & {*folded, "reason"} else ""
        fold = [HTML(FOLD.format("", is_open, MORE)), HTML(DEFAULTS)]
        self.helper.layout = Layout(*asked, *fold, *rest, Field("reason"), HTML("</details>"))

    def _folded(self) -> list[str]:
        """The fields that are not asked, in the order of the full form."""
        asked = set(names_in(ASKED.values()))
        if self.entered("provider") and "provider" not in self.errors:
            asked.discard("provider")
        every = names_in(words.PARTS.values())
        return [name for name in every if name not in asked and name in self.fields]

    def _rest(self, folded: list[str]) -> list[tuple[str, Part]]:
        """The parts with only their folded fields; of a part that is asked, under another id."""
        parts: list[tuple[str, Part]] = []
        for css_id, (title, sentence, names) in words.PARTS.items():
            left = [name for name in names if name in folded]
            if left:
                known = f"{css_id}-more" if css_id in ASKED else css_id
                parts.append((known, (title, sentence, left)))
        return parts
