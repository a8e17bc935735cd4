"""What handlers of the tests write: effects that can be counted, and a deferred foreign key."""

from django.db import models


class Effect(models.Model):
    """One applied message. Nothing keeps it from being written twice: doubles must show."""

    message_id = models.TextField()
    interface = models.TextField()
    n = models.IntegerField()
    arrival_batch = models.BigIntegerField(default=0)
    arrival_place = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.interface} {self.n}"


class Unique(models.Model):
    """A table that refuses the second row of a name."""

    name = models.TextField(unique=True)

    def __str__(self) -> str:
        return self.name


class Child(models.Model):
    """Points at an effect; the constraint is deferred, as Django makes all of them."""

    parent = models.ForeignKey(Effect, on_delete=models.CASCADE)

    def __str__(self) -> str:
        return str(self.pk)
