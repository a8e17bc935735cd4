"""Order within a key: the key of each failure, the state PARKED, and what a queue says of it."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0001_initial'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='messageerror',
            name='error_state_known',
        ),
        migrations.RemoveIndex(
            model_name='messageerror',
            name='error_open',
        ),
        migrations.RemoveIndex(
            model_name='messageerror',
            name='error_cause_open',
        ),
        migrations.AddField(
            model_name='messageerror',
            name='order_key',
            field=models.BinaryField(help_text='what messages that keep their order have in common, hashed', null=True),
        ),
        migrations.AddField(
            model_name='messageerror',
            name='parked_at',
            field=models.DateTimeField(help_text='Since then others may pass it: behind its key, or by a decision.', null=True),
        ),
        migrations.AddField(
            model_name='queue',
            name='max_parked',
            field=models.PositiveIntegerField(db_default=1000, default=1000, help_text='Of one key, where keys keep their order.', validators=[django.core.validators.MinValueValidator(1)]),
        ),
        migrations.AddField(
            model_name='queue',
            name='order_path',
            field=models.CharField(blank=True, db_default='', default='', help_text="Where the key whose order is kept stands in the document; empty = the record's.", max_length=250),
        ),
        migrations.AddField(
            model_name='queuepartition',
            name='begins_after',
            field=models.JSONField(help_text='Of a partition that was added where keys keep their order: {partition: offset} that the others have to reach before it begins.', null=True),
        ),
        # What is open keeps its order: those that outbound queues have parked so far, too.
        migrations.RunSQL(
            "UPDATE integration_messageerror SET order_key = decode(md5(key), 'hex') "
            "WHERE key IS NOT NULL AND state IN ('RETRY', 'HOLD', 'READY', 'PROCESSING', 'DELETED')",
            migrations.RunSQL.noop,
        ),
        migrations.AlterField(
            model_name='messageerror',
            name='state',
            field=models.CharField(choices=[('RETRY', 'Retry'), ('HOLD', 'Hold'), ('READY', 'Ready'), ('PARKED', 'Parked'), ('PROCESSING', 'Processing'), ('RESOLVED', 'Resolved'), ('DELETED', 'Deleted')], max_length=10),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(condition=models.Q(('state__in', ['RETRY', 'HOLD', 'READY', 'PARKED', 'PROCESSING'])), fields=['queue', 'state', 'partition', 'arrival_batch', 'arrival_index'], name='error_open'),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(condition=models.Q(('state__in', ['RETRY', 'HOLD', 'READY', 'PARKED', 'PROCESSING'])), fields=['fingerprint', 'queue', 'interface', 'code'], include=('state', 'first_failed_at', 'last_failed_at'), name='error_cause_open'),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(condition=models.Q(('order_key__isnull', False), ('state__in', ['RETRY', 'HOLD', 'READY', 'PARKED', 'PROCESSING'])), fields=['queue', 'order_key', 'arrival_batch', 'arrival_index'], name='error_order_open'),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(condition=models.Q(('parked_at__isnull', False), ('state__in', ['RETRY', 'HOLD', 'READY', 'PARKED', 'PROCESSING'])), fields=['queue', 'partition'], name='error_parked'),
        ),
        migrations.AddConstraint(
            model_name='messageerror',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['RETRY', 'HOLD', 'READY', 'PARKED', 'PROCESSING', 'RESOLVED', 'DELETED'])), name='error_state_known'),
        ),
    ]
