"""The consumer group that runs of a queue join, where a shared cluster demands it."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0013_forwarding'),
    ]

    operations = [
        migrations.AddField(
            model_name='partitionlease',
            name='group_member',
            field=models.CharField(blank=True, db_default='', default='', editable=False, help_text='In group mode: the member to which the consumer group had assigned it.', max_length=250),
        ),
        migrations.AddField(
            model_name='queue',
            name='group_id',
            field=models.CharField(blank=True, db_default='', default='', help_text='The group that its runs join; empty = the deployment, a hyphen, the queue.', max_length=249),
        ),
        migrations.AddField(
            model_name='queue',
            name='group_protocol',
            field=models.CharField(choices=[('none', 'None: its runs divide the partitions among themselves'), ('classic', 'Classic, with cooperative rebalancing'), ('consumer', 'Consumer (KIP-848), for brokers from 4.0 on')], db_default='none', default='none', help_text='Inbound: how its runs join a consumer group, where the cluster demands one.', max_length=10),
        ),
    ]
