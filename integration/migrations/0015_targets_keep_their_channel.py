"""A channel is deleted after its targets, so that each deletion has its row of audit."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("integration", "0014_tracking_by_day")]

    operations = [
        migrations.AlterField(
            model_name="channeltarget",
            name="channel",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="targets",
                to="integration.publishchannel",
            ),
        ),
    ]
