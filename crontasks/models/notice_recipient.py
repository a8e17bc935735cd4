"""A recipient of notices: mail addresses, a webhook, or a chat that takes Slack's JSON."""

from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import models
from django.db.models import ProtectedError

from integration.endpoint_types import checks
from integration.models.fields import SecretField

MOST_ADDRESSES = 50


class NoticeRecipient(models.Model):
    """Whom rules may name. `url` is a secret: chats' addresses are their own passwords."""

    class Way(models.TextChoices):
        """How it is told."""

        MAIL = "mail", "Mail"
        WEBHOOK = "webhook", "Webhook (signed JSON)"
        SLACK = "slack", "Chat (Slack's JSON)"

    name = models.SlugField(max_length=60, unique=True)
    description = models.CharField(max_length=200, blank=True)
    way = models.CharField(max_length=10, choices=Way.choices, default=Way.MAIL)
    addresses = models.JSONField(default=list, blank=True)
    url = SecretField(blank=True, default="")
    secret = SecretField(blank=True, default="")
    private_network = models.BooleanField(default=False)
    enabled = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]
        verbose_name = "recipient of notices"
        verbose_name_plural = "recipients of notices"

    def __str__(self) -> str:
        return self.name

    @property
    def host(self) -> str:
        """The part of the address that pages may show."""
        return urlsplit(self.url).hostname or ""

    def clean(self) -> None:
        """Raises ValidationError."""
        if self.way == self.Way.MAIL:
            self._check_mail()
        else:
            self._check_address()
        if self._stored_name() not in {"", self.name} and self.rules():
            raise ValidationError({"name": "Rules name it: make another recipient instead."})

    def rules(self) -> "list[models.Model]":
        """The rules that name it, as it is stored."""
        rules: Any = self._meta.apps.get_model("crontasks", "NoticeRule")
        return list(rules._default_manager.filter(recipients__contains=[self._stored_name()]))

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Raises ProtectedError while a rule names it."""
        if used := self.rules():
            raise ProtectedError("Rules name it.", set(used))
        return super().delete(*args, **kwargs)

    def _stored_name(self) -> str:
        stored = type(self)._default_manager.filter(pk=self.pk).values_list("name", flat=True)
        return stored.first() or ""

    def _check_mail(self) -> None:
        given = self.addresses
        is_list = isinstance(given, list) and all(isinstance(one, str) for one in given)
        if not is_list or not given or len(given) > MOST_ADDRESSES:
            raise ValidationError({"addresses": f"Enter 1 to {MOST_ADDRESSES} mail addresses."})
        for address in given:
            try:
                validate_email(address)
            except ValidationError:
                why = f"“{address[:80]}” is no mail address."
                raise ValidationError({"addresses": why}) from None

    def _check_address(self) -> None:
        mistake = checks.address(self.url)
        if not mistake and ("{" in self.url or "}" in self.url):
            mistake = "must not hold braces"
        if mistake:
            raise ValidationError({"url": f"The address {mistake}."})
