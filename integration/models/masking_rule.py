"""Masking rules: what of which messages is hidden wherever they are shown."""

from django.core.exceptions import ValidationError
from django.db import models

from integration.masking.mask import Part, Rule
from integration.masking.matcher import Style
from integration.masking.steps import steps_of
from integration.paths import BadPath

LONGEST_HEADER = 200


class MaskingRule(models.Model):
    """A rule. It is for messages that all of its limits fit; without any, for all messages."""

    class Of(models.TextChoices):
        """The part of a message it hides."""

        PAYLOAD = Part.PAYLOAD.value, "A value in the payload"
        HEADER = Part.HEADER.value, "A header"
        KEY = Part.KEY.value, "The record key"

    class Left(models.TextChoices):
        """How much of a value is left."""

        WHOLE = Style.WHOLE.value, "Nothing of it"
        LAST_FOUR = Style.LAST_FOUR.value, "Its last four characters, if it has eight or more"

    name = models.SlugField(max_length=60, unique=True)
    description = models.CharField(max_length=200, blank=True)
    enabled = models.BooleanField(default=True)
    part = models.CharField(max_length=10, choices=Of.choices, default=Of.PAYLOAD)
    path = models.CharField(max_length=250, blank=True)
    style = models.CharField(max_length=10, choices=Left.choices, default=Left.WHOLE)
    system = models.ForeignKey(
        "integration.ExternalSystem",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="masking_rules",
    )
    queue = models.ForeignKey(
        "integration.Queue",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="masking_rules",
    )
    service = models.ForeignKey(
        "integration.EnterpriseService",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="masking_rules",
    )
    structure = models.ForeignKey(
        "integration.ObjectStructure",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="masking_rules",
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def rule(self) -> Rule:
        return Rule(Part(self.part), self.path, Style(self.style))

    def clean(self) -> None:
        self.path = self.path.strip()
        if self.part == self.Of.KEY:
            # There is one key: a path typed before another part was chosen says nothing.
            self.path = ""
        elif not self.path:
            raise ValidationError({"path": "Say what is masked: a path, or the name of a header."})
        elif self.part == self.Of.PAYLOAD:
            try:
                steps_of(self.path)
            except BadPath as e:
                raise ValidationError({"path": str(e)}) from e
        elif len(self.path) > LONGEST_HEADER:
            text = f"The name of a header has at most {LONGEST_HEADER} characters."
            raise ValidationError({"path": text})
