"""Keeps apart what group rules limit somebody to, and what an administrator does."""

from typing import Any

from django.db import migrations, models


def move(apps: Any, editor: Any) -> None:
    """Of a person limited by rules, the one limit was what those had given."""
    limits = apps.get_model("console", "Limit").objects.using(editor.connection.alias)
    identities = apps.get_model("console", "CompanyIdentity").objects
    for identity in identities.using(editor.connection.alias).filter(is_limited=True):
        limit = limits.filter(person=identity.person_id).first()
        if limit is not None:
            identity.systems.set(limit.systems.all())
            limit.delete()


def move_back(apps: Any, editor: Any) -> None:
    """The limit of rules takes the place of one by hand, as it did before."""
    limits = apps.get_model("console", "Limit").objects.using(editor.connection.alias)
    identities = apps.get_model("console", "CompanyIdentity").objects
    for identity in identities.using(editor.connection.alias).filter(is_limited=True):
        limit, _ = limits.get_or_create(person_id=identity.person_id)
        limit.systems.set(identity.systems.all())


class Migration(migrations.Migration):
    dependencies = [
        ("console", "0005_second_factors"),
    ]

    operations = [
        migrations.AddField(
            model_name="companyidentity",
            name="systems",
            field=models.ManyToManyField(
                blank=True, related_name="+", to="integration.externalsystem"
            ),
        ),
        migrations.RunPython(move, move_back),
    ]
