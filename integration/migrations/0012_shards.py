import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.core.validators
import integration.models.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0011_formats'),
    ]

    # The relay's statements lock the leases before the outbox, publishers the outbox before the
    # provider: in this order nobody waits in a circle.
    operations = [
        migrations.AddField(
            model_name='relaylease',
            name='first_bucket',
            field=models.PositiveSmallIntegerField(db_default=0, default=0, help_text='The first it holds.'),
        ),
        migrations.AddField(
            model_name='relaylease',
            name='end_bucket',
            field=models.PositiveSmallIntegerField(db_default=256, default=256, help_text='The first it does not hold any more; it holds none if this is the same.'),
        ),
        migrations.AddConstraint(
            model_name='relaylease',
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(expressions=[(models.Func(models.ExpressionWrapper(models.expressions.CombinedExpression(models.expressions.CombinedExpression(models.F('provider'), '*', models.Value(256)), '+', models.F('first_bucket')), output_field=models.BigIntegerField()), models.ExpressionWrapper(models.expressions.CombinedExpression(models.expressions.CombinedExpression(models.F('provider'), '*', models.Value(256)), '+', models.F('end_bucket')), output_field=models.BigIntegerField()), function='int8range', output_field=django.contrib.postgres.fields.ranges.BigIntegerRangeField()), '&&')], name='one_holder_per_bucket'),
        ),
        migrations.RemoveIndex(
            model_name='outboxrow',
            name='outbox_due',
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(models.F('provider'), models.F('shard'), models.F('not_before'), models.F('id'), integration.models.fields.TopicBucket('topic'), condition=models.Q(('state', 'PENDING')), name='outbox_due'),
        ),
        migrations.AddField(
            model_name='provider',
            name='shards',
            field=models.PositiveSmallIntegerField(db_default=1, default=1, help_text='How many relays send its outgoing messages side by side, divided by topic.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(16)], verbose_name='shards of the relay'),
        ),
    ]
