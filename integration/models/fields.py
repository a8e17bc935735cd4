"""Columns of our own: encrypted text, states, bounds; constraints."""

from enum import StrEnum
from typing import Any, Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import MD5

from integration.durations import LONGEST_SECONDS
from integration.errors import IntegrationError
from integration.values import readable_moment

# What is longer is a slip of the keyboard, and some of it more than a date can hold.
SECONDS: Final = (MinValueValidator(0), MaxValueValidator(LONGEST_SECONDS))


class SecretUnreadableError(IntegrationError):
    """A stored secret cannot be decrypted with the configured keys."""

    code = "SECRET_UNREADABLE"

    def __init__(self) -> None:
        super().__init__(
            "A stored secret cannot be decrypted with SLUICE_ENCRYPTION_KEYS.",
            next_step="Put the key it was written with back into the list (first = newest).",
        )


def keyring() -> MultiFernet:
    """The configured keys: the first encrypts, all decrypt, so that keys can be rotated."""
    return MultiFernet([Fernet(key) for key in settings.SLUICE_ENCRYPTION_KEYS])


def known_states(states: type[StrEnum], name: str) -> models.CheckConstraint:
    """Nothing but these stands in the column `state`."""
    condition = models.Q(state__in=[state.value for state in states])
    return models.CheckConstraint(condition=condition, name=name)


def one_queue_per_source() -> models.UniqueConstraint:
    """Two queues that read the same would each lack messages.

    At a JMS broker a subscription has messages of its own, and a selector chooses; its text may be
    too long for an index. A queue of Kafka has neither.
    """
    return models.UniqueConstraint(
        *("provider", "topic", "direction", "subscription"),
        MD5("selector"),
        name="one_queue_per_source",
        violation_error_code="unique_together",
        violation_error_message="Another queue of this direction already reads from there.",
    )


class TopicBucket(models.Func):
    """The bucket that a topic falls into: policy.relay_shares.bucket, in SQL."""

    template = "get_byte(decode(md5(%(expressions)s), 'hex'), 0)"
    output_field = models.IntegerField()


class RecordTimeField(models.DateTimeField):  # type: ignore[type-arg] # not subscriptable
    """The time that a producer gave a record. One that Python does not have is read as None."""

    def select_format(
        self,
        compiler: Any,  # noqa: ARG002 - Django's signature
        sql: str,
        params: Any,
    ) -> tuple[str, Any]:
        return readable_moment(sql), params

    def deconstruct(self) -> Any:
        # The column is that of any moment: migrations need not know how it is read.
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.DateTimeField", args, kwargs


class SecretField(models.TextField):  # type: ignore[type-arg] # not subscriptable at run time
    """Text encrypted with SLUICE_ENCRYPTION_KEYS; empty stays empty. Never filter on it."""

    def get_prep_value(self, value: Any) -> Any:
        text = super().get_prep_value(value)
        return keyring().encrypt(text.encode()).decode() if text else text

    def from_db_value(self, value: str | None, *_: object) -> str | None:
        if not value:
            return value
        try:
            return keyring().decrypt(value.encode()).decode()
        except InvalidToken as e:
            raise SecretUnreadableError from e
