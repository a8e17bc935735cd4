"""All tables, as they are before the first release."""

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('django_celery_beat', '0019_alter_periodictasks_options'),
        ('integration', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='CronInstance',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('task', models.CharField(max_length=100)),
                ('parameters', models.JSONField(blank=True, default=dict)),
                ('crontab', models.CharField(blank=True, help_text='minute hour day-of-month month day-of-week', max_length=200)),
                ('interval_seconds', models.PositiveIntegerField(blank=True, null=True)),
                ('time_zone', models.CharField(default='UTC', max_length=60)),
                ('active', models.BooleanField(default=True)),
                ('overlap', models.CharField(choices=[('skip', 'Skip the run'), ('allow', 'Run both')], default='skip', max_length=10)),
                ('misfire', models.CharField(choices=[('run_once', 'Run once, late'), ('skip', 'Wait for the next scheduled time')], default='run_once', max_length=10)),
                ('timeout_seconds', models.PositiveIntegerField(default=600, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(86400)])),
                ('keep_runs', models.PositiveIntegerField(default=200, validators=[django.core.validators.MaxValueValidator(100000)])),
                ('last_scheduled_at', models.DateTimeField(editable=False, null=True)),
                ('asked_at', models.DateTimeField(editable=False, help_text='a run was sent to the workers and none began yet', null=True)),
                ('waits_since', models.DateTimeField(editable=False, help_text='since when its queue waits for a start', null=True)),
                ('periodic_task', models.OneToOneField(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='instance', to='django_celery_beat.periodictask')),
                ('queue', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='instances', to='integration.queue')),
                ('run_as', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='CronRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('scheduled_at', models.DateTimeField(null=True)),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('duration_seconds', models.FloatField(null=True)),
                ('state', models.CharField(choices=[('RUNNING', 'RUNNING'), ('DONE', 'DONE'), ('FAILED', 'FAILED'), ('TIMED_OUT', 'TIMED_OUT'), ('LOST', 'LOST')], max_length=10)),
                ('ending', models.CharField(blank=True, max_length=20)),
                ('counts', models.JSONField(default=dict)),
                ('text', models.TextField(blank=True)),
                ('log_excerpt', models.TextField(blank=True)),
                ('node', models.CharField(blank=True, max_length=200)),
                ('instance', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='crontasks.croninstance')),
            ],
            options={
                'ordering': ['-started_at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='Heartbeat',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('worker', 'Celery worker'), ('beat', 'Celery beat')], max_length=10)),
                ('node', models.CharField(max_length=200)),
                ('pid', models.IntegerField()),
                ('started_at', models.DateTimeField()),
                ('seen_at', models.DateTimeField()),
                ('leads', models.BooleanField(default=False)),
                ('slots', models.IntegerField(default=0, help_text='Celery tasks it can run at the same time')),
                ('queues', models.CharField(blank=True, help_text='Celery queues, by commas', max_length=500)),
                ('clock_skew_seconds', models.FloatField(default=0)),
            ],
            options={
                'ordering': ['kind', 'node'],
                'constraints': [models.UniqueConstraint(fields=('kind', 'node'), name='one_heart_per_node')],
            },
        ),
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('BLOCKED', 'Queue blocked'), ('BRAKED', 'Queue stopped at its failure threshold'), ('OUTAGE', 'Queue waits for an outage to end'), ('WAITING', 'Queue waits for something switched off'), ('HOLD_BURST', 'Many messages held'), ('EXPIRING', 'Messages are about to expire unread'), ('GAP', 'Messages expired unread'), ('NO_CONSUMER', 'Nothing consumes the queue'), ('NO_WORKER', 'No worker is alive'), ('NO_BEAT', 'Beat is not alive'), ('HUNG', 'A call hangs'), ('NO_SLOT', 'All worker slots are taken'), ('NO_RELAY', 'Outgoing messages are not sent'), ('NO_BROKER', 'The Celery broker does not answer'), ('COPY', 'This database belongs to another environment')], max_length=20)),
                ('subject', models.CharField(max_length=200)),
                ('text', models.TextField()),
                ('opened_at', models.DateTimeField()),
                ('closed_at', models.DateTimeField(null=True)),
                ('told_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ['-opened_at', '-id'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('closed_at__isnull', True)), fields=('kind', 'subject'), name='one_open_notice')],
            },
        ),
        migrations.AddConstraint(
            model_name='croninstance',
            constraint=models.UniqueConstraint(fields=('queue', 'task'), name='one_instance_per_queue_task'),
        ),
        migrations.AddConstraint(
            model_name='croninstance',
            constraint=models.CheckConstraint(condition=models.Q(('crontab', ''), ('interval_seconds__isnull', True), _connector='XOR'), name='crontab_or_interval'),
        ),
        migrations.AddIndex(
            model_name='cronrun',
            index=models.Index(fields=['instance', '-started_at'], name='run_by_instance'),
        ),
        migrations.AddConstraint(
            model_name='cronrun',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['RUNNING', 'DONE', 'FAILED', 'TIMED_OUT', 'LOST'])), name='run_state_known'),
        ),
    ]
