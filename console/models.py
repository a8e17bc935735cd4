"""The tables of the console itself: limits, personal tokens, sessions, the company's logins."""

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models

from integration.models import ExternalSystem
from integration.models.fields import SecretField


class Limit(models.Model):
    """A person who may know of these external systems only; without a row, of everything.

    With `is_by_hand` an administrator limits the person to `by_hand`. `systems` are what is left of
    those beside the limit of group rules (CompanyIdentity): console.people.limits keeps it so.
    """

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="sluice_limit",
    )
    systems = models.ManyToManyField(ExternalSystem, blank=True, related_name="+")
    is_by_hand = models.BooleanField(default=False, db_default=False)
    by_hand = models.ManyToManyField(ExternalSystem, blank=True, related_name="+")

    def __str__(self) -> str:
        return f"limit of {self.person_id}"


class PersonalToken(models.Model):
    """A person's key to the operator API. Only its hash is stored; it is shown once, when made.

    With it somebody may do what its person may, and of that only `rights`: the words of
    console.layout.access.Right. `prefix` is its first characters, by which it is found.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sluice_tokens"
    )
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, unique=True)
    token_hash = models.CharField(
        max_length=64, editable=False, help_text="SHA-256 of the token, hexadecimal"
    )
    rights = models.JSONField(default=list, help_text="what it is limited to")
    created_at = models.DateTimeField(editable=False)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["person", "name"], name="one_personal_token_per_name")
        ]

    def __str__(self) -> str:
        return self.name


class ActionReceipt(models.Model):
    """What was answered to something done through the operator API under an idempotency key.

    Written in the transaction of what was done, and kept for a week.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    key = models.CharField(max_length=200)
    request_hash = models.BinaryField()
    status = models.SmallIntegerField()
    answer = models.JSONField(null=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "key"], name="one_receipt_per_key")
        ]

    def __str__(self) -> str:
        return self.key


class ConsoleSession(models.Model):
    """Where a person is logged in. The row is gone when the session is over.

    Only an installation of its own has them: in another project sessions are the project's.
    """

    class Way(models.TextChoices):
        """How the person came in."""

        PASSWORD = "password", "password"
        COMPANY = "company", "company login"
        CODE = "code", "one-time code"

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sluice_sessions"
    )
    session_key = models.CharField(max_length=40, unique=True, editable=False)
    way = models.CharField(max_length=20, choices=Way.choices)
    began_at = models.DateTimeField(editable=False)
    seen_at = models.DateTimeField(editable=False)
    address = models.CharField(max_length=100, blank=True)
    agent = models.CharField(max_length=200, blank=True, help_text="The browser, as it says.")

    class Meta:
        ordering = ["-seen_at", "-pk"]

    def __str__(self) -> str:
        return f"session of {self.person_id}"


class CompanyIdentity(models.Model):
    """Whom a person is to the identity provider, and what its groups gave them here.

    `roles`, and with `is_limited` the limit to `systems`, are what the group rules gave: the same
    rules take it away again, and nothing that an administrator gave by hand.
    """

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sluice_identity"
    )
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255, help_text="The provider's name that never changes.")
    groups = models.JSONField(default=list, help_text="as told at the last login")
    roles = models.ManyToManyField(Group, blank=True, related_name="+")
    is_limited = models.BooleanField(default=False)
    systems = models.ManyToManyField(ExternalSystem, blank=True, related_name="+")
    seen_at = models.DateTimeField(editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="one_person_per_identity")
        ]

    def __str__(self) -> str:
        return self.subject


class GroupRule(models.Model):
    """Who is in this group of the identity provider has this role here.

    With `is_limited` the person is limited to `systems`.
    """

    group = models.CharField(max_length=200)
    role = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="+")
    is_limited = models.BooleanField(default=False)
    systems = models.ManyToManyField(ExternalSystem, blank=True, related_name="+")

    class Meta:
        ordering = ["group", "role__name"]
        constraints = [
            models.UniqueConstraint(fields=["group", "role"], name="one_rule_per_group_and_role")
        ]

    def __str__(self) -> str:
        return f"{self.group} → {self.role}"


class LoginCode(models.Model):
    """A one-time code that `manage.py break_glass` made. Only its hash is stored."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    prefix = models.CharField(max_length=16, unique=True)
    code_hash = models.CharField(max_length=64, editable=False)
    minutes = models.PositiveSmallIntegerField(help_text="how long the session lasts at most")
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.prefix}…"


class SecondFactor(models.Model):
    """What a person shows after the password: an authenticator app, a passkey, recovery codes.

    Of recovery codes only keyed hashes are stored, in `data`; of a passkey its public key.
    """

    class Kind(models.TextChoices):
        """What it is."""

        APP = "app", "authenticator app"
        PASSKEY = "passkey", "passkey"
        CODES = "codes", "recovery codes"

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sluice_factors"
    )
    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(max_length=100, blank=True)
    secret = SecretField(blank=True, help_text="of an authenticator app")
    data = models.JSONField(default=dict)
    # A code of an app counts once: none of this step or an earlier one is taken again.
    last_step = models.BigIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(editable=False)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["kind", "pk"]

    def __str__(self) -> str:
        return self.name or self.get_kind_display()
