"""The forms about people: an account, and one's own password."""

from typing import Any, Final

from crispy_forms.helper import FormHelper
from django import forms
from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password

from console.layout.access import Right
from console.people import limits
from console.people.accounts import Wanted, account_model
from console.people.roles import rights_of
from integration.models import ExternalSystem

MODEL: Final = account_model()
_FIELDS: Final = frozenset(field.name for field in MODEL._meta.concrete_fields)
# The columns of the project's accounts that this form shows; a model need not have the later two.
NAME: Final = MODEL.USERNAME_FIELD
EMAIL: Final = tuple({MODEL.get_email_field_name()} & _FIELDS)
ACTIVE: Final = tuple({"is_active"} & _FIELDS)


class RoleField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg] # Django's
    """Roles, each with what it allows beside its name."""

    def label_from_instance(self, obj: Any) -> str:
        rights = rights_of(obj)
        words = [right.words for right in Right if right in rights]
        return f"{obj.name}: may {'; '.join(words)}" if words else f"{obj.name}: may do nothing yet"


class PersonForm(forms.ModelForm):  # type: ignore[type-arg] # Meta names the model
    """An account: who it is, what it may do, and with which partners."""

    roles = RoleField(
        queryset=Group.objects.prefetch_related("permissions__content_type").order_by("pk"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Rights add up. Without a role a person can log in and see nothing.",
    )
    is_limited = forms.BooleanField(
        required=False,
        label="Only for some external systems",
        help_text="Queues, failures and systems of other partners are hidden from this person.",
    )
    systems = forms.ModelMultipleChoiceField(
        queryset=ExternalSystem.objects.all(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="External systems",
        help_text="Applies only if the box above is ticked. A partner who is not listed is set up "
        "under External systems first.",
    )
    password = forms.CharField(
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    why = forms.CharField(required=False, max_length=200, help_text="Kept in the history.")

    class Meta:
        model = MODEL
        fields = tuple(dict.fromkeys((NAME, *EMAIL, *ACTIVE)))
        labels = {NAME: "Email" if NAME in EMAIL else "Name", "is_active": "May log in"}
        help_texts = {"username": "Letters, digits and @ . + - _ only.", "is_active": ""}

    field_order = (
        NAME,
        *EMAIL,
        "password",
        "is_active",
        "roles",
        "is_limited",
        "systems",
        "why",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._no_password = ""
        is_new = self.instance.pk is None
        self.fields["password"].help_text = (
            "At least 8 characters. Empty: one is generated and shown to you once."
            if is_new
            else "Leave empty to keep the current one. A new one ends all sessions of this person."
        )
        if not is_new:
            self._begin_with(self.instance)
        self.helper = FormHelper()
        self.helper.template_pack = "bootstrap5"
        self.helper.form_tag = False

    def clean_systems(self) -> Any:
        """Raises ValidationError where ticked systems would limit nothing: nobody means that."""
        systems = self.cleaned_data["systems"]
        if systems and not self.cleaned_data.get("is_limited"):
            raise forms.ValidationError(
                "Systems are ticked, but the person is not limited to them. Tick “Only for some "
                "external systems” too, or untick the systems to let the person see everything."
            )
        return systems

    def take_no_password(self, why: str, instead: str) -> None:
        """Refuse a password with the sentence `why`; its field says what to do instead, as HTML.

        The field is closed by its widget alone: Django would ignore what comes for a closed field,
        and from an older page it may come.
        """
        self._no_password = why
        self.fields["password"].help_text = instead
        self.fields["password"].widget.attrs["disabled"] = True

    def clean_password(self) -> str:
        """Raises ValidationError for a weak one, and for any where none is taken."""
        password: str = self.cleaned_data["password"]
        if password and self._no_password:
            raise forms.ValidationError(self._no_password)
        if password:
            validate_password(password, self.instance)
        return password

    def wanted(self) -> Wanted:
        """The account that the form asks for; call it when the form is valid."""
        given = self.cleaned_data
        return Wanted(
            name=given[NAME],
            email=given[EMAIL[0]] if EMAIL else "",
            roles=tuple(given["roles"]),
            systems=tuple(given["systems"]) if given["is_limited"] else None,
            is_active=given.get("is_active", True),
            password=given["password"] or None,
        )

    def _begin_with(self, account: User) -> None:
        by_hand = limits.by_hand(account)
        self.initial.update(
            roles=[group.pk for group in account.groups.all()],
            is_limited=by_hand is not None,
            systems=[one.pk for one in by_hand or ()],
        )
