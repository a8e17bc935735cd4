"""What came."""

from django.db import models


class Part(models.Model):
    """A part; its key is made as the project says."""

    number = models.CharField(max_length=20, unique=True)

    def __str__(self) -> str:
        return self.number
