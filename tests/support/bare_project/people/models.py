"""Users who have an address and a country, and neither a name nor a number."""

import uuid
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models


class People(BaseUserManager["Person"]):
    """Makes users."""

    def create_superuser(self, email: str, password: str, **fields: Any) -> "Person":
        person = self.model(email=email, is_superuser=True, **fields)
        person.set_password(password)
        person.save()
        return person


class Person(AbstractBaseUser, PermissionsMixin):
    """A user of the shop."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.EmailField(unique=True)
    country = models.CharField(max_length=2)
    objects = People()
    USERNAME_FIELD = "email"
    REQUIRED_FIELDS = ["country"]
