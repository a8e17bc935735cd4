import django.contrib.postgres.fields
from django.db import migrations, models

# As `track_search` (0001), which it would cost a long lock to make anew. Partial: where messages
# come without traces no row of theirs is in it.
INDEX = """
CREATE INDEX track_trace ON integration_messagetrack USING brin (
  trace_id uuid_bloom_ops (n_distinct_per_range = 1000, false_positive_rate = 0.02)
) WITH (pages_per_range = 16, autosummarize = on) WHERE trace_id IS NOT NULL
"""


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0024_jms_sources'),
    ]

    operations = [
        migrations.AddField(
            model_name='messagetrack',
            name='trace_id',
            field=models.UUIDField(help_text='of W3C Trace Context', null=True),
        ),
        migrations.RunSQL(INDEX, 'DROP INDEX track_trace'),
        migrations.CreateModel(
            name='Tally',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('ended', 'Ended'), ('latency', 'Latency'), ('call', 'Call')], max_length=10)),
                ('subject', models.BigIntegerField()),
                ('ended', models.CharField(blank=True, max_length=12)),
                ('counts', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None)),
                ('total', models.FloatField(default=0.0)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('kind', 'subject', 'ended'), name='one_tally_a_subject')],
            },
        ),
    ]
