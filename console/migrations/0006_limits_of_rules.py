"""Keeps apart what group rules limit somebody to, and what an administrator does.

What comes of both stays in the table that the release before reads.
"""

from typing import Any

from django.db import migrations, models


def copy(apps: Any, editor: Any) -> None:
    """Of a person limited by rules, the one limit was what those had given.

    Where an administrator had lifted it, it comes back with the next login, as it did before.
    """
    alias = editor.connection.alias
    limits = apps.get_model("console", "Limit").objects.using(alias)
    identities = apps.get_model("console", "CompanyIdentity").objects.using(alias)
    for identity in identities.filter(is_limited=True):
        limit = limits.filter(person=identity.person_id).first()
        if limit is not None:
            identity.systems.set(limit.systems.all())
        else:
            identities.filter(pk=identity.pk).update(is_limited=False)


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
        migrations.AddField(
            model_name="limit",
            name="is_by_hand",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="limit",
            name="by_hand",
            field=models.ManyToManyField(
                blank=True, related_name="+", to="integration.externalsystem"
            ),
        ),
        migrations.RunPython(copy, migrations.RunPython.noop),
    ]
