"""All tables, as they are before the first release."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import integration.endpoints.properties
import integration.models.fields
import uuid
from django.db import migrations, models

# One partition for each day of `at`, from today on; `store.track_days` makes those that follow.
TRACKING_BY_DAY = """
DO $$
DECLARE
  today date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
  day date;
BEGIN
  ALTER TABLE integration_messagetrack RENAME TO integration_messagetrack_made;
  ALTER TABLE integration_messagetrack_made ALTER id DROP IDENTITY;
  -- Numbers only tell rows of one moment apart: a session may take many at once.
  CREATE SEQUENCE integration_messagetrack_id_seq AS bigint CACHE 500;
  CREATE TABLE integration_messagetrack
    (LIKE integration_messagetrack_made INCLUDING DEFAULTS INCLUDING STORAGE)
    PARTITION BY RANGE (at);
  DROP TABLE integration_messagetrack_made;
  ALTER TABLE integration_messagetrack ALTER id
    SET DEFAULT nextval('integration_messagetrack_id_seq');
  ALTER SEQUENCE integration_messagetrack_id_seq OWNED BY integration_messagetrack.id;
  -- It is compressed when it gets here.
  ALTER TABLE integration_messagetrack ALTER payload SET STORAGE EXTERNAL;

  -- One entry for each COPY.
  CREATE INDEX track_by_batch ON integration_messagetrack (queue_id, at)
    WHERE batch_rows IS NOT NULL;
  -- Not by time: a search by id names a window, and the planner would read all of it.
  CREATE INDEX track_by_arrival ON integration_messagetrack USING brin (arrival_batch)
    WITH (pages_per_range = 32, autosummarize = on);
  -- Few rows, and those that people look for.
  CREATE INDEX track_unusual ON integration_messagetrack (ended, at)
    WHERE ended <> 'APPLIED' AND ended <> 'DELIVERED';
  -- One summary of 16 pages instead of five entries a row. The sizes keep the largest summary
  -- below a page.
  CREATE INDEX track_search ON integration_messagetrack USING brin (
    message_id text_bloom_ops (n_distinct_per_range = 1000, false_positive_rate = 0.02),
    key text_bloom_ops (n_distinct_per_range = 1000, false_positive_rate = 0.02),
    external_id text_bloom_ops (n_distinct_per_range = 1000, false_positive_rate = 0.02),
    search_a text_bloom_ops (n_distinct_per_range = 1000, false_positive_rate = 0.02),
    search_b text_bloom_ops (n_distinct_per_range = 1000, false_positive_rate = 0.02),
    caused_by text_bloom_ops (n_distinct_per_range = 1000, false_positive_rate = 0.02),
    interface text_bloom_ops (n_distinct_per_range = 100, false_positive_rate = 0.02)
  ) WITH (pages_per_range = 16, autosummarize = on);

  CREATE TABLE integration_messagetrack_default PARTITION OF integration_messagetrack DEFAULT;
  FOR day IN SELECT generate_series(today, today + 7, interval '1 day')::date LOOP
    EXECUTE format('CREATE TABLE integration_messagetrack_d%s PARTITION OF '
      'integration_messagetrack FOR VALUES FROM (%L) TO (%L)', to_char(day, 'YYYYMMDD'),
      day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
  END LOOP;
END $$;
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Deployment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('environment', models.CharField(max_length=100)),
                ('canary', models.TextField(help_text='proves that the encryption keys are the right ones')),
                ('database_mark', models.CharField(blank=True, db_default='', editable=False, help_text="The server's identity, the database's number and the timeline: another one means that the database was restored, copied or failed over. Empty = not noted yet.", max_length=100)),
            ],
        ),
        migrations.CreateModel(
            name='Endpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(max_length=60, unique=True)),
                ('endpoint_type', models.CharField(choices=integration.endpoints.properties.choices, max_length=20)),
                ('properties', models.JSONField(blank=True, default=dict)),
                ('secrets', integration.models.fields.SecretField(blank=True, help_text='Stored encrypted; never shown.')),
                ('enabled', models.BooleanField(default=True)),
                ('paused_until', models.DateTimeField(blank=True, null=True)),
                ('idempotent', models.BooleanField(default=False, help_text='It drops repeats of a message id: what may have arrived is sent again.')),
                ('rate_per_second', models.FloatField(blank=True, help_text='Empty = no limit.', null=True, validators=[django.core.validators.MinValueValidator(0.001)])),
                ('max_concurrent', models.PositiveIntegerField(default=8, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(64)])),
                ('open_after', models.PositiveIntegerField(default=5, help_text='Failures in a row of different messages after which it counts as down.', validators=[django.core.validators.MinValueValidator(1)])),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='ExternalSystem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(max_length=60, unique=True)),
                ('description', models.CharField(blank=True, max_length=200)),
                ('enabled', models.BooleanField(default=True)),
                ('requests_per_minute', models.PositiveIntegerField(blank=True, help_text='How many posts it may make; empty = as many as it likes.', null=True)),
                ('max_body_bytes', models.PositiveIntegerField(default=10485760, help_text='The largest body it may post.')),
                ('legacy_door', models.BooleanField(default=False, help_text='Also accept /meaweb addresses and the MAXAUTH header.')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='MessageError',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('topic_uuid', models.CharField(max_length=36)),
                ('partition', models.IntegerField()),
                ('offset', models.BigIntegerField()),
                ('kafka_timestamp', models.DateTimeField(null=True)),
                ('message_id', models.TextField(blank=True)),
                ('interface', models.CharField(blank=True, max_length=100)),
                ('sender', models.CharField(blank=True, max_length=200)),
                ('key', models.BinaryField(null=True)),
                ('headers', models.JSONField(default=list, help_text='[[name, base64 or null], …] as they came')),
                ('payload', models.BinaryField(help_text="the record's value, byte for byte", null=True)),
                ('edited_payload', models.BinaryField(null=True)),
                ('edited_by', models.CharField(blank=True, max_length=150)),
                ('edited_at', models.DateTimeField(null=True)),
                ('state', models.CharField(choices=[('RETRY', 'Retry'), ('HOLD', 'Hold'), ('READY', 'Ready'), ('PROCESSING', 'Processing'), ('RESOLVED', 'Resolved'), ('DELETED', 'Deleted')], max_length=10)),
                ('failure_class', models.CharField(max_length=12)),
                ('code', models.CharField(max_length=60)),
                ('text', models.TextField(blank=True)),
                ('detail', models.TextField(blank=True)),
                ('fingerprint', models.CharField(blank=True, max_length=16)),
                ('attempts', models.IntegerField(default=0)),
                ('retry_no', models.IntegerField(default=0)),
                ('spent', models.IntegerField(default=0)),
                ('crashes', models.IntegerField(default=0)),
                ('not_before', models.DateTimeField(null=True)),
                ('carrier', models.CharField(choices=[('topic', 'A retry marker at the end of the topic'), ('row', 'The row of the error table alone')], default='row', max_length=10)),
                ('arrival_batch', models.BigIntegerField(null=True)),
                ('arrival_index', models.BigIntegerField(null=True)),
                ('late', models.BooleanField(default=False)),
                ('apply_as_newest', models.BooleanField(default=False)),
                ('version', models.IntegerField(default=1)),
                ('epoch', models.BigIntegerField(help_text='whose marker PROCESSING is', null=True)),
                ('copied_at', models.DateTimeField(null=True)),
                ('copy_offset', models.BigIntegerField(null=True)),
                ('first_failed_at', models.DateTimeField()),
                ('last_failed_at', models.DateTimeField()),
                ('expired_at', models.DateTimeField(null=True)),
                ('closed_at', models.DateTimeField(null=True)),
                ('ended', models.CharField(blank=True, help_text='what a closed row ended in', max_length=12)),
            ],
            options={
                'ordering': ['-last_failed_at', 'id'],
                'permissions': [('view_payload', 'Can see payloads, keys and headers'), ('edit_payload', 'Can edit the payload of a held message'), ('operate', 'Can release, hold, delete, restore, pause and resume'), ('change_configuration', 'Can set up providers, systems, queues and schedules'), ('manage_people', 'Can add people and give them rights')],
            },
        ),
        migrations.CreateModel(
            name='ObjectStructure',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(max_length=60, unique=True)),
                ('description', models.CharField(blank=True, max_length=200)),
                ('key_paths', models.JSONField(default=list, help_text='For example ["$.assetnum", "$.siteid"]')),
                ('version_path', models.CharField(blank=True, help_text='Integer or timestamp in the payload that tells which document is newer.', max_length=300)),
                ('json_schema', models.JSONField(blank=True, null=True)),
                ('tombstone', models.CharField(choices=[('hold', 'Hold it for a person'), ('delete', 'Delete the document of its key')], default='hold', max_length=10)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='QueuePartition',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('partition', models.IntegerField()),
                ('topic_uuid', models.CharField(max_length=36)),
                ('next_offset', models.BigIntegerField()),
                ('epoch', models.BigIntegerField(default=0)),
                ('last_batch', models.UUIDField(null=True)),
                ('state', models.CharField(choices=[('RUNNING', 'Running'), ('BACKOFF', 'Backoff'), ('BLOCKED', 'Blocked'), ('BRAKED', 'Braked'), ('OUTAGE', 'Outage'), ('WAITING', 'Waiting')], default='RUNNING', max_length=10)),
                ('state_code', models.CharField(blank=True, max_length=60)),
                ('state_text', models.TextField(blank=True)),
                ('state_since', models.DateTimeField(null=True)),
                ('state_error', models.UUIDField(help_text='The failure that blocks or delays it.', null=True)),
                ('resume_at', models.DateTimeField(null=True)),
                ('probes', models.IntegerField(default=0)),
                ('unclean_ends', models.IntegerField(default=0)),
                ('unclean_offset', models.BigIntegerField(null=True)),
                ('suspect_offset', models.BigIntegerField(null=True)),
                ('suspect_crashes', models.IntegerField(default=0)),
                ('suspect_hung', models.BooleanField(db_default=False, default=False)),
                ('marked_at', models.DateTimeField(null=True)),
                ('low_watermark', models.BigIntegerField(null=True)),
                ('high_watermark', models.BigIntegerField(null=True)),
                ('oldest_waiting_at', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField(null=True)),
                ('progressed_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ['queue', 'partition'],
            },
        ),
        migrations.CreateModel(
            name='Provider',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(help_text='Part of message ids.', max_length=60, unique=True)),
                ('bootstrap_servers', models.CharField(help_text='host:port, several separated by commas', max_length=1000)),
                ('security_protocol', models.CharField(choices=[('PLAINTEXT', 'Plaintext'), ('SSL', 'Ssl'), ('SASL_PLAINTEXT', 'Sasl Plaintext'), ('SASL_SSL', 'Sasl Ssl')], default='PLAINTEXT', max_length=20)),
                ('sasl_mechanism', models.CharField(blank=True, choices=[('PLAIN', 'Plain'), ('SCRAM-SHA-256', 'Scram Sha 256'), ('SCRAM-SHA-512', 'Scram Sha 512'), ('OAUTHBEARER', 'Oauthbearer'), ('GSSAPI', 'Gssapi')], max_length=20)),
                ('username', models.CharField(blank=True, max_length=200)),
                ('password', integration.models.fields.SecretField(blank=True, help_text='Stored encrypted; never shown.')),
                ('ca_certificate', models.TextField(blank=True, help_text="PEM; empty = the system's own list")),
                ('client_certificate', models.TextField(blank=True, help_text='PEM')),
                ('client_key', integration.models.fields.SecretField(blank=True, help_text='PEM; stored encrypted, never shown')),
                ('properties', models.JSONField(blank=True, default=dict, help_text='Further client properties from the allowed list.')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Queue',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(max_length=60, unique=True)),
                ('description', models.CharField(blank=True, max_length=200)),
                ('topic', models.CharField(max_length=249)),
                ('direction', models.CharField(choices=[('inbound', 'Inbound'), ('outbound', 'Outbound')], default='inbound', max_length=10)),
                ('kind', models.CharField(choices=[('sequential', 'Sequential: stop at the first failure'), ('continuous', 'Continuous: continue and retry later')], max_length=12)),
                ('start_from', models.CharField(choices=[('beginning', 'The oldest message the topic still has'), ('end', 'Only messages written from now on'), ('time', 'Messages written since a time'), ('group', 'Where a named consumer group stands')], max_length=10)),
                ('start_time', models.DateTimeField(blank=True, null=True)),
                ('start_group', models.CharField(blank=True, max_length=255)),
                ('enabled', models.BooleanField(default=True)),
                ('paused', models.BooleanField(default=False)),
                ('pause_reason', models.CharField(blank=True, max_length=200)),
                ('paused_until', models.DateTimeField(blank=True, help_text='Goes on by itself then; empty = until a person resumes.', null=True)),
                ('max_retries', models.PositiveIntegerField(default=3, help_text='Tries after the first.', validators=[django.core.validators.MaxValueValidator(1000)])),
                ('unlimited_retries', models.BooleanField(default=False, help_text='Never give a message up. It may be tried for ever.')),
                ('backoff', models.CharField(choices=[('constant', 'constant'), ('linear', 'linear'), ('exponential', 'exponential'), ('list', 'list')], default='constant', max_length=12)),
                ('retry_delay_seconds', models.FloatField(default=30, validators=[django.core.validators.MinValueValidator(0)])),
                ('retry_factor', models.FloatField(default=2, validators=[django.core.validators.MinValueValidator(1)])),
                ('retry_delays_seconds', models.JSONField(blank=True, default=list)),
                ('retry_cap_seconds', models.FloatField(default=3600, validators=[django.core.validators.MinValueValidator(0)])),
                ('retry_jitter', models.FloatField(default=0, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1)])),
                ('retry_total_seconds', models.FloatField(blank=True, null=True)),
                ('is_error_queue', models.BooleanField(default=False, help_text='Its records are failures of other queues, kept for people.')),
                ('strict_order', models.BooleanField(default=False, help_text='Error queue only: one held message stops the ones behind it.')),
                ('carrier', models.CharField(choices=[('topic', 'A retry marker at the end of the topic'), ('row', 'The row of the error table alone')], default='topic', max_length=10)),
                ('on_head_expired', models.CharField(choices=[('advance', 'Continue; the saved failure stays open'), ('stay_blocked', 'Stay blocked')], default='advance', max_length=15)),
                ('on_gap', models.CharField(choices=[('block', "Wait for a person's acknowledgement"), ('advance', 'Record the gap, notify, continue')], default='block', max_length=10)),
                ('max_open_errors', models.PositiveIntegerField(default=10000)),
                ('failure_threshold', models.PositiveIntegerField(default=100, help_text='0 = never')),
                ('crash_limit', models.PositiveIntegerField(default=3, validators=[django.core.validators.MinValueValidator(1)])),
                ('dedupe', models.BooleanField(default=False, help_text='Drop a message whose id and content were seen before.')),
                ('retention_seconds', models.PositiveBigIntegerField(default=604800, help_text="How long closed failures are kept; as the topic's retention.")),
                ('ordering', models.CharField(choices=[('none', 'Nothing: each message for itself'), ('key', 'Messages of one key')], default='none', help_text='Continuous only.', max_length=4)),
                ('concurrency', models.PositiveIntegerField(default=1, help_text='Outbound continuous: how many messages of different keys are sent at once.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(64)])),
                ('batch_size', models.PositiveIntegerField(default=500, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(10000)])),
                ('stay_seconds', models.FloatField(default=60, validators=[django.core.validators.MinValueValidator(0)])),
                ('handler_timeout_seconds', models.FloatField(default=60, validators=[django.core.validators.MinValueValidator(1)])),
                ('tracks', models.BooleanField(db_default=True, default=True, help_text='Write down what becomes of each message, so that people can search.')),
                ('topic_keeps_seconds', models.BigIntegerField(editable=False, help_text="The topic's retention; -1 = for ever.", null=True)),
                ('topic_max_bytes', models.IntegerField(editable=False, help_text='The largest record the topic takes.', null=True)),
                ('start_requested_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('changed_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='BulkRun',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('job', models.CharField(max_length=20)),
                ('job_request', models.JSONField(default=dict, help_text='what a person said; asked again by a clone')),
                ('parameters', models.JSONField(default=dict, help_text='what the job is told')),
                ('plan', models.JSONField(default=dict)),
                ('state', models.CharField(choices=[('ASKED', 'Waits for the Spark driver'), ('RUNNING', 'Running'), ('DONE', 'Done'), ('FAILED', 'Failed'), ('CANCELLED', 'Cancelled')], default='ASKED', max_length=10)),
                ('progress', models.JSONField(default=dict, help_text='stage, done, total, rows')),
                ('applied', models.BooleanField(default=False)),
                ('counts', models.JSONField(default=dict, help_text='read, sent, rejected, skipped')),
                ('facts', models.JSONField(default=dict, help_text='what the job tells of itself')),
                ('log', models.TextField(blank=True, default='', help_text='the last lines the job said, each with its time')),
                ('problem', models.JSONField(help_text='[code, text, next step] of a failed run', null=True)),
                ('actor', models.CharField(max_length=150)),
                ('reason', models.TextField(blank=True)),
                ('queues', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, help_text='The queues it concerns; who may not know of one of them sees none of it.', size=None)),
                ('sentinel', models.CharField(blank=True, default='', help_text="A file that the driver must be able to read, with this run's id in it.", max_length=500)),
                ('asked_at', models.DateTimeField()),
                ('started_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('cancel_asked_at', models.DateTimeField(null=True)),
                ('sent_at', models.DateTimeField(help_text='when it was last sent to the Spark driver', null=True)),
                ('owner', models.CharField(blank=True, max_length=200)),
                ('epoch', models.BigIntegerField(default=0)),
                ('lease_until', models.DateTimeField(null=True)),
                ('deaths', models.PositiveIntegerField(db_default=0, default=0, help_text='drivers that died under it since a person last asked for it')),
                ('instance', models.BigIntegerField(help_text='the cron instance that asked for it', null=True)),
            ],
            options={
                'ordering': ['-asked_at'],
                'indexes': [models.Index(fields=['-asked_at'], name='bulk_run_recent'), models.Index(condition=models.Q(('state__in', ['ASKED', 'RUNNING'])), fields=['asked_at'], name='bulk_run_open')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['ASKED', 'RUNNING', 'DONE', 'FAILED', 'CANCELLED'])), name='bulk_run_state_known')],
            },
        ),
        migrations.CreateModel(
            name='EndpointCircuit',
            fields=[
                ('endpoint', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='circuit', serialize=False, to='integration.endpoint')),
                ('state', models.CharField(choices=[('CLOSED', 'CLOSED'), ('OPEN', 'OPEN'), ('HALF_OPEN', 'HALF_OPEN')], default='CLOSED', max_length=10)),
                ('version', models.BigIntegerField(default=0)),
                ('failures', models.IntegerField(default=0, help_text='in a row, without a success between')),
                ('probes', models.IntegerField(default=0, help_text='made since it opened')),
                ('opened_at', models.DateTimeField(null=True)),
                ('resume_at', models.DateTimeField(null=True)),
                ('code', models.CharField(blank=True, max_length=60)),
                ('text', models.TextField(blank=True)),
                ('changed_at', models.DateTimeField(null=True)),
                ('next_slot_at', models.DateTimeField(help_text='for the limit per second', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='EndpointTest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('connect', 'Connect only'), ('sample', 'Send a sample')], max_length=10)),
                ('at', models.DateTimeField()),
                ('actor', models.CharField(max_length=150)),
                ('is_good', models.BooleanField()),
                ('took_ms', models.IntegerField(null=True)),
                ('status', models.IntegerField(null=True)),
                ('code', models.CharField(blank=True, max_length=60)),
                ('text', models.TextField(blank=True)),
                ('excerpt', models.TextField(blank=True)),
                ('endpoint', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tests', to='integration.endpoint')),
            ],
            options={
                'ordering': ['-at', '-id'],
            },
        ),
        migrations.AddField(
            model_name='endpoint',
            name='system',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='endpoints', to='integration.externalsystem'),
        ),
        migrations.CreateModel(
            name='ErrorAttempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.IntegerField()),
                ('at', models.DateTimeField()),
                ('ended', models.CharField(max_length=12)),
                ('code', models.CharField(blank=True, max_length=60)),
                ('text', models.TextField(blank=True)),
                ('detail', models.TextField(blank=True)),
                ('worker', models.CharField(blank=True, max_length=200)),
                ('edited', models.BooleanField(default=False)),
                ('error', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tries', to='integration.messageerror')),
            ],
            options={
                'ordering': ['number', 'id'],
            },
        ),
        migrations.CreateModel(
            name='EnterpriseService',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('interface', models.CharField(max_length=100, unique=True)),
                ('description', models.CharField(blank=True, max_length=200)),
                ('enabled', models.BooleanField(default=True)),
                ('external_id_path', models.CharField(blank=True, max_length=250)),
                ('search_paths', models.JSONField(blank=True, default=list)),
                ('keeps_payload', models.BooleanField(default=False, help_text='Tracking keeps the payload.')),
                ('structure', models.ForeignKey(blank=True, help_text='Store into this structure; empty = the registered handler takes it.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='services', to='integration.objectstructure')),
            ],
            options={
                'ordering': ['interface'],
            },
        ),
        migrations.CreateModel(
            name='Operation',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('verb', models.CharField(choices=[('release', 'Release'), ('hold', 'Hold'), ('delete', 'Delete'), ('restore', 'Restore'), ('edit', 'Edit')], max_length=10)),
                ('title', models.CharField(help_text='What it does, as people call it.', max_length=200)),
                ('query', models.TextField(blank=True, help_text='The filter it was chosen by, urlencoded.')),
                ('recipe', models.TextField(blank=True, default='', help_text='For an edit: a JSON Patch, [{"op": …, "path": …, "value": …}].')),
                ('trial', models.JSONField(help_text='For an edit: how far the dry run came, and what it found.', null=True)),
                ('release_after_edit', models.BooleanField(default=False)),
                ('late', models.BooleanField(default=False, help_text='Released ones may be applied after newer messages.')),
                ('actor', models.CharField(max_length=150)),
                ('reason', models.TextField(blank=True)),
                ('state', models.CharField(choices=[('PLANNED', 'PLANNED'), ('RUNNING', 'RUNNING'), ('PAUSED', 'PAUSED'), ('DONE', 'DONE'), ('CANCELLED', 'CANCELLED')], max_length=10)),
                ('why_paused', models.TextField(blank=True)),
                ('first_only', models.BooleanField(default=False, help_text='It pauses by itself after its first message.')),
                ('rate', models.PositiveIntegerField(help_text='messages a second; empty = no limit', null=True)),
                ('stop_after', models.PositiveIntegerField(help_text='It pauses by itself when so many that it released failed again.', null=True)),
                ('stop_share', models.PositiveSmallIntegerField(help_text='The same for so many percent of those released.', null=True)),
                ('stop_from', models.DateTimeField(help_text='Since when failures are counted for it: its start, or resumption.', null=True)),
                ('stop_base', models.PositiveIntegerField(help_text='How many were released before that.', null=True)),
                ('total', models.PositiveIntegerField(default=0)),
                ('handled', models.PositiveIntegerField(default=0, help_text='How many had their turn.')),
                ('done', models.PositiveIntegerField(default=0, help_text='On how many it was carried out.')),
                ('is_capped', models.BooleanField(default=False, help_text='More matched than one operation takes; the oldest are in it.')),
                ('queues', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, help_text='The queues of its messages: who may not know of one of them sees none of it.', size=None)),
                ('created_at', models.DateTimeField()),
                ('started_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('version', models.IntegerField(default=1)),
                ('owner', models.CharField(blank=True, max_length=200)),
                ('epoch', models.BigIntegerField(default=0)),
                ('lease_until', models.DateTimeField(null=True)),
                ('asked_at', models.DateTimeField(help_text='A turn was asked for and has not begun.', null=True)),
                ('worked_at', models.DateTimeField(help_text='When its last chunk was committed.', null=True)),
                ('retry_of', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='retries', to='integration.operation')),
            ],
            options={
                'ordering': ['-created_at', 'id'],
            },
        ),
        migrations.CreateModel(
            name='OperationItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('place', models.IntegerField(help_text='its turn in the operation, from 0')),
                ('version', models.IntegerField()),
                ('version_after', models.IntegerField(null=True)),
                ('outcome', models.CharField(blank=True, choices=[('DONE', 'DONE'), ('WRONG_STATE', 'WRONG_STATE'), ('MOVED_ON', 'MOVED_ON'), ('GONE', 'GONE'), ('IN_WORK', 'IN_WORK'), ('LATE', 'LATE'), ('INVALID', 'INVALID'), ('UNCHANGED', 'UNCHANGED')], help_text='empty = its turn has not come yet', max_length=12)),
                ('text', models.TextField(blank=True, help_text='why it was not done')),
                ('at', models.DateTimeField(null=True)),
                ('error', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='operations', to='integration.messageerror')),
                ('operation', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='items', to='integration.operation')),
            ],
            options={
                'ordering': ['operation', 'place'],
            },
        ),
        migrations.CreateModel(
            name='PartitionLease',
            fields=[
                ('partition', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='lease', serialize=False, to='integration.queuepartition')),
                ('owner', models.CharField(max_length=200)),
                ('epoch', models.BigIntegerField()),
                ('lock_pid', models.IntegerField()),
                ('lock_backend_start', models.DateTimeField()),
                ('batch_pid', models.IntegerField(null=True)),
                ('batch_backend_start', models.DateTimeField(null=True)),
                ('lease_until', models.DateTimeField()),
                ('overdue', models.BooleanField(db_default=False, default=False, help_text='A call has taken longer than the handler timeout.')),
                ('working_since', models.DateTimeField(help_text='When the call began that was under way at the last renewal.', null=True)),
                ('taken_at', models.DateTimeField()),
                ('released_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Gap',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ('topic_uuid', models.CharField(max_length=36)),
                ('from_offset', models.BigIntegerField()),
                ('to_offset', models.BigIntegerField(help_text='first offset after the gap')),
                ('reason', models.CharField(max_length=60)),
                ('found_at', models.DateTimeField()),
                ('acknowledged_at', models.DateTimeField(null=True)),
                ('acknowledged_by', models.CharField(blank=True, max_length=150)),
                ('partition', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='gaps', to='integration.queuepartition')),
            ],
            options={
                'ordering': ['-found_at'],
            },
        ),
        migrations.CreateModel(
            name='BatchLog',
            fields=[
                ('number', models.BigIntegerField(primary_key=True, serialize=False)),
                ('topic_uuid', models.CharField(max_length=36)),
                ('from_offset', models.BigIntegerField()),
                ('to_offset', models.BigIntegerField()),
                ('committed_at', models.DateTimeField()),
                ('partition', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, to='integration.queuepartition')),
            ],
        ),
        migrations.CreateModel(
            name='OutboxRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('shard', models.SmallIntegerField(default=0)),
                ('topic', models.CharField(max_length=249)),
                ('partition', models.IntegerField(null=True)),
                ('key', models.BinaryField(null=True)),
                ('headers', models.JSONField(default=list, help_text='[[name, base64 or null], …]')),
                ('value', models.BinaryField(null=True)),
                ('kind', models.CharField(choices=[('MESSAGE', 'MESSAGE'), ('TICKET', 'TICKET'), ('MIRROR', 'MIRROR')], max_length=8)),
                ('message_id', models.TextField(blank=True)),
                ('error', models.UUIDField(help_text='the failure a retry marker or copy belongs to', null=True)),
                ('retry_no', models.IntegerField(null=True)),
                ('strict_queue', models.IntegerField(help_text='the strict queue whose order it keeps', null=True)),
                ('not_before', models.DateTimeField(null=True)),
                ('state', models.CharField(choices=[('PENDING', 'PENDING'), ('STAMPED', 'STAMPED'), ('PUBLISHED', 'PUBLISHED'), ('DEAD', 'DEAD'), ('CANCELLED', 'CANCELLED')], default='PENDING', max_length=10)),
                ('batch', models.UUIDField(null=True)),
                ('created_at', models.DateTimeField()),
                ('published_at', models.DateTimeField(null=True)),
                ('dead_code', models.CharField(blank=True, max_length=60)),
                ('dead_text', models.TextField(blank=True)),
                ('provider', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='outbox', to='integration.provider')),
            ],
            options={
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='OutboxChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('shard', models.SmallIntegerField(default=0)),
                ('row', models.BigIntegerField(help_text='Empty for a whole batch in doubt.', null=True)),
                ('batch', models.UUIDField(help_text="The relay's batch as the person saw it.", null=True)),
                ('topic', models.CharField(blank=True, max_length=249)),
                ('count', models.IntegerField(default=1, help_text='How many rows it changed.')),
                ('at', models.DateTimeField()),
                ('actor', models.CharField(max_length=150)),
                ('action', models.CharField(max_length=20)),
                ('from_state', models.CharField(max_length=10)),
                ('to_state', models.CharField(max_length=10)),
                ('why_before', models.TextField(blank=True, help_text='Why it waited for a person.')),
                ('reason', models.TextField(blank=True)),
                ('provider', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='integration.provider')),
            ],
            options={
                'ordering': ['-at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='PublishChannel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('description', models.CharField(blank=True, max_length=200)),
                ('enabled', models.BooleanField(default=True)),
                ('format', models.CharField(choices=[('json', 'JSON'), ('xml', 'XML')], default='json', max_length=4)),
                ('envelope', models.BooleanField(default=True, help_text='Wrap the payload; off = the bare payload, its facts in headers.')),
                ('key_path', models.CharField(blank=True, help_text='Where the key is found when publish() names none.', max_length=250)),
                ('external_id_path', models.CharField(blank=True, max_length=250)),
                ('search_paths', models.JSONField(blank=True, default=list)),
                ('keeps_payload', models.BooleanField(default=False, help_text='Tracking keeps the payload.')),
                ('structure', models.ForeignKey(blank=True, help_text='Its schema and key paths judge what is published; empty = anything goes.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='channels', to='integration.objectstructure')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.AddField(
            model_name='queuepartition',
            name='queue',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='partitions', to='integration.queue'),
        ),
        migrations.AddField(
            model_name='queue',
            name='default_service',
            field=models.ForeignKey(blank=True, help_text='Takes messages that name no service themselves.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='default_of', to='integration.enterpriseservice'),
        ),
        migrations.AddField(
            model_name='queue',
            name='endpoint',
            field=models.ForeignKey(blank=True, help_text='Outbound: where its messages are delivered; empty = partners read the topic.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='queues', to='integration.endpoint'),
        ),
        migrations.AddField(
            model_name='queue',
            name='error_queue',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='feeding_queues', to='integration.queue'),
        ),
        migrations.AddField(
            model_name='queue',
            name='provider',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='queues', to='integration.provider'),
        ),
        migrations.AddField(
            model_name='queue',
            name='system',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='queues', to='integration.externalsystem'),
        ),
        migrations.CreateModel(
            name='MessageTrack',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('partition', models.IntegerField()),
                ('offset', models.BigIntegerField()),
                ('arrival_batch', models.BigIntegerField()),
                ('message_id', models.TextField()),
                ('interface', models.TextField()),
                ('ended', models.CharField(max_length=12)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('queue', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='integration.queue')),
                ('key', models.TextField(help_text="the Kafka record's key as text", null=True)),
                ('kafka_ms', models.BigIntegerField(help_text='when it was written to Kafka, milliseconds since 1970; 0 = not known', null=True)),
                ('external_id', models.TextField(null=True)),
                ('search_a', models.TextField(null=True)),
                ('search_b', models.TextField(null=True)),
                ('caused_by', models.TextField(help_text='the id of the message it answers', null=True)),
                ('payload', models.BinaryField(help_text="the record's value, compressed by zlib", null=True)),
                ('batch_rows', models.IntegerField(db_default=1, help_text='rows of its COPY, in the first of them; null in the others', null=True)),
            ],
        ),
        migrations.AddField(
            model_name='messageerror',
            name='queue',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='errors', to='integration.queue'),
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('topic_uuid', models.CharField(max_length=36)),
                ('partition', models.IntegerField()),
                ('offset', models.BigIntegerField()),
                ('error', models.UUIDField(help_text='the failure, when it is tried from there', null=True)),
                ('message_id', models.TextField()),
                ('interface', models.TextField(blank=True)),
                ('attempt', models.IntegerField(default=1)),
                ('state', models.CharField(choices=[('SENDING', 'SENDING'), ('DELIVERED', 'DELIVERED'), ('FAILED', 'FAILED'), ('UNKNOWN', 'UNKNOWN')], max_length=10)),
                ('epoch', models.BigIntegerField()),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('took_ms', models.IntegerField(null=True)),
                ('status', models.IntegerField(help_text="the answer's HTTP status, where it has one", null=True)),
                ('code', models.CharField(blank=True, max_length=60)),
                ('text', models.TextField(blank=True)),
                ('excerpt', models.TextField(blank=True, help_text='the beginning of the answer, bounded')),
                ('endpoint', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='integration.endpoint')),
                ('queue', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='integration.queue')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='ChannelTarget',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('enabled', models.BooleanField(default=True)),
                ('endpoint', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='targets', to='integration.endpoint')),
                ('system', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='targets', to='integration.externalsystem')),
                ('channel', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='targets', to='integration.publishchannel')),
                ('queue', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='targets', to='integration.queue')),
            ],
            options={
                'verbose_name': 'target',
                'ordering': ['channel__name', 'system__name'],
            },
        ),
        migrations.CreateModel(
            name='QueueChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(db_default='', help_text='What the queue was called at that time.', max_length=60)),
                ('partition', models.IntegerField(null=True)),
                ('at', models.DateTimeField()),
                ('actor', models.CharField(max_length=150)),
                ('action', models.CharField(max_length=30)),
                ('reason', models.TextField(blank=True)),
                ('effect', models.TextField(blank=True, help_text='What it changed, as a sentence.')),
                ('queue', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='changes', to='integration.queue')),
            ],
            options={
                'ordering': ['-at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='QueueSample',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('position', models.BigIntegerField(help_text='sum of the next offsets')),
                ('end', models.BigIntegerField(help_text='sum of the high watermarks')),
                ('held', models.IntegerField(default=0)),
                ('retrying', models.IntegerField(default=0)),
                ('queue', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='samples', to='integration.queue')),
            ],
            options={
                'ordering': ['-at'],
            },
        ),
        migrations.CreateModel(
            name='Receipt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sender_id', models.TextField(help_text="the sender's own id of its post", null=True)),
                ('message_id', models.TextField(help_text='of several messages the part before their numbers')),
                ('interface', models.TextField()),
                ('content_hash', models.BinaryField()),
                ('status', models.IntegerField()),
                ('answer', models.JSONField()),
                ('count', models.IntegerField(default=1)),
                ('first_row', models.BigIntegerField(help_text='its outgoing rows lie between these', null=True)),
                ('last_row', models.BigIntegerField(null=True)),
                ('received_at', models.DateTimeField()),
                ('queue', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, to='integration.queue')),
                ('system', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='receipts', to='integration.externalsystem')),
            ],
        ),
        migrations.CreateModel(
            name='RelayLease',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('shard', models.SmallIntegerField(default=0)),
                ('owner', models.CharField(blank=True, max_length=200)),
                ('epoch', models.BigIntegerField(default=0)),
                ('lease_until', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField(null=True)),
                ('in_doubt_since', models.DateTimeField(null=True)),
                ('in_doubt_text', models.TextField(blank=True)),
                ('batch', models.UUIDField(help_text='The batch on its way to Kafka.', null=True)),
                ('batch_rows', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), null=True, size=None)),
                ('watermark', models.CharField(help_text='The last batch known to be in Kafka; as Kafka has it.', max_length=36, null=True)),
                ('provider', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='integration.provider')),
            ],
        ),
        migrations.CreateModel(
            name='Restore',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('noticed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('noticed_by', models.CharField(choices=[('database', 'The data is in another database than before'), ('timeline', 'The server went on from an earlier state'), ('watermark', 'Kafka has a batch that this database never sent'), ('person', 'A person said so')], max_length=10)),
                ('text', models.TextField()),
                ('examined_at', models.DateTimeField(null=True)),
                ('remarks', models.JSONField(db_default=[], default=list)),
                ('closed_at', models.DateTimeField(null=True)),
                ('closed_by', models.CharField(blank=True, db_default='', max_length=150)),
            ],
            options={
                'ordering': ['-id'],
                'constraints': [models.UniqueConstraint(models.Value(1), condition=models.Q(('closed_at__isnull', True)), name='one_open_restore')],
            },
        ),
        migrations.CreateModel(
            name='RestoreFinding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('position', 'Messages that were read already would be read again'), ('sent', 'Messages that wait to be sent may be in Kafka already'), ('delivery', 'Messages that wait to be delivered may be delivered already')], max_length=10)),
                ('queue', models.IntegerField(help_text='The queue it holds.', null=True)),
                ('partition', models.IntegerField(null=True)),
                ('provider', models.IntegerField(help_text='The relay it holds.', null=True)),
                ('shard', models.SmallIntegerField(null=True)),
                ('facts', models.JSONField(default=dict)),
                ('decision', models.CharField(blank=True, max_length=20)),
                ('effect', models.TextField(blank=True)),
                ('decided_at', models.DateTimeField(null=True)),
                ('actor', models.CharField(blank=True, max_length=150)),
                ('reason', models.TextField(blank=True)),
                ('restore', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='findings', to='integration.restore')),
            ],
            options={
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='SeenMessage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('message_id', models.TextField()),
                ('content_hash', models.BinaryField()),
                ('partition', models.IntegerField()),
                ('offset', models.BigIntegerField()),
                ('seen_at', models.DateTimeField()),
                ('queue', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='integration.queue')),
            ],
        ),
        migrations.CreateModel(
            name='StoredObject',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.TextField()),
                ('document', models.JSONField(null=True)),
                ('xml', models.TextField(blank=True, help_text='The document as it came, when it is XML.')),
                ('sort_version', models.DecimalField(decimal_places=10, max_digits=40, null=True)),
                ('version', models.BigIntegerField(default=1)),
                ('arrival_batch', models.BigIntegerField()),
                ('arrival_index', models.BigIntegerField()),
                ('message_id', models.TextField(blank=True)),
                ('topic_uuid', models.CharField(blank=True, max_length=36)),
                ('partition', models.IntegerField(null=True)),
                ('offset', models.BigIntegerField(null=True)),
                ('updated_at', models.DateTimeField()),
                ('structure', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='documents', to='integration.objectstructure')),
            ],
        ),
        migrations.CreateModel(
            name='ConfigurationChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('actor', models.CharField(max_length=150)),
                ('action', models.CharField(help_text='What was done, such as create.', max_length=20)),
                ('kind', models.CharField(help_text="The model's name, for example queue.", max_length=40)),
                ('subject', models.CharField(help_text='The primary key, as text.', max_length=40)),
                ('name', models.CharField(help_text='What it was called at that time.', max_length=200)),
                ('before', models.JSONField(help_text='Only the fields that changed; null = was new.', null=True)),
                ('after', models.JSONField(help_text='Only the fields that changed; null = is gone.', null=True)),
                ('reason', models.TextField(blank=True)),
                ('is_access', models.BooleanField(db_default=False, default=False, help_text='Nothing was changed by it.')),
                ('system', models.ForeignKey(db_index=False, help_text='The partner it belongs to; empty for what all share.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='integration.externalsystem')),
            ],
            options={
                'ordering': ['-at', '-id'],
                'indexes': [models.Index(fields=['kind', 'subject', '-at'], name='configuration_by_subject'), models.Index(fields=['-at', '-id'], name='configuration_recent'), models.Index(condition=models.Q(('is_access', False)), fields=['-at', '-id'], name='configuration_changes'), models.Index(fields=['actor', '-at', '-id'], name='configuration_by_actor'), models.Index(fields=['action', '-at', '-id'], name='configuration_by_action')],
            },
        ),
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('prefix', models.CharField(max_length=16, unique=True)),
                ('token_hash', models.CharField(editable=False, help_text='SHA-256 of the token, hexadecimal', max_length=64)),
                ('may_post', models.BooleanField(default=True, help_text='put messages into queues')),
                ('may_call', models.BooleanField(default=False, help_text='run a service at once')),
                ('may_read', models.BooleanField(default=True, help_text='ask what became of a message')),
                ('may_publish', models.BooleanField(default=False, help_text='publish to channels')),
                ('services', models.JSONField(blank=True, default=list, help_text='interfaces it is limited to; empty = all')),
                ('created_at', models.DateTimeField(editable=False)),
                ('created_by', models.CharField(editable=False, max_length=150)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('system', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to='integration.externalsystem')),
            ],
            options={
                'ordering': ['system__name', 'name'],
                'constraints': [models.UniqueConstraint(fields=('system', 'name'), name='one_token_per_name')],
            },
        ),
        migrations.CreateModel(
            name='ErrorChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('queue_name', models.CharField(blank=True, db_default='', help_text='Set once the failure is gone.', max_length=60)),
                ('message_id', models.TextField(blank=True, db_default='', help_text='Set once the failure is gone.')),
                ('at', models.DateTimeField()),
                ('actor', models.CharField(max_length=150)),
                ('action', models.CharField(max_length=20)),
                ('from_state', models.CharField(max_length=10)),
                ('to_state', models.CharField(max_length=10)),
                ('reason', models.TextField(blank=True)),
                ('payload_before', models.BinaryField(null=True)),
                ('operation', models.UUIDField(help_text='the bulk operation it was part of', null=True)),
                ('error', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='changes', to='integration.messageerror')),
            ],
            options={
                'ordering': ['at', 'id'],
                'indexes': [models.Index(condition=models.Q(('error', None)), fields=['message_id'], name='error_change_by_message')],
            },
        ),
        migrations.AddIndex(
            model_name='operation',
            index=models.Index(condition=models.Q(('state__in', ['RUNNING', 'PAUSED'])), fields=['created_at'], name='operation_open'),
        ),
        migrations.AddIndex(
            model_name='operation',
            index=models.Index(fields=['-created_at', 'id'], name='operation_recent'),
        ),
        migrations.AddConstraint(
            model_name='operation',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['PLANNED', 'RUNNING', 'PAUSED', 'DONE', 'CANCELLED'])), name='operation_state_known'),
        ),
        migrations.AddConstraint(
            model_name='operationitem',
            constraint=models.UniqueConstraint(fields=('operation', 'place'), name='one_item_a_place'),
        ),
        migrations.AddIndex(
            model_name='batchlog',
            index=models.Index(fields=['partition', 'to_offset'], name='batch_log_by_offset'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('state', 'PENDING')), fields=['provider', 'shard', 'not_before', 'id'], name='outbox_due'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('state', 'DEAD'), ('strict_queue__isnull', False)), fields=['strict_queue', 'id'], name='outbox_dead_strict'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('state', 'DEAD')), fields=['id'], name='outbox_dead'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('state', 'STAMPED')), fields=['provider', 'shard'], name='outbox_stamped'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('error__isnull', False)), fields=['error'], name='outbox_by_error'),
        ),
        migrations.AddConstraint(
            model_name='outboxrow',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['PENDING', 'STAMPED', 'PUBLISHED', 'DEAD', 'CANCELLED'])), name='outbox_state_known'),
        ),
        migrations.AddIndex(
            model_name='outboxchange',
            index=models.Index(fields=['row'], name='outbox_change_row'),
        ),
        migrations.AddIndex(
            model_name='outboxchange',
            index=models.Index(fields=['-at', '-id'], name='outbox_change_recent'),
        ),
        migrations.AddConstraint(
            model_name='queuepartition',
            constraint=models.UniqueConstraint(fields=('queue', 'partition'), name='one_row_per_partition'),
        ),
        migrations.AddConstraint(
            model_name='queuepartition',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['RUNNING', 'BACKOFF', 'BLOCKED', 'BRAKED', 'OUTAGE', 'WAITING'])), name='partition_state_known'),
        ),
        migrations.AddConstraint(
            model_name='queuepartition',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('state', 'BACKOFF'), _negated=True), ('resume_at__isnull', False), _connector='OR'), name='backoff_has_an_end'),
        ),
        migrations.AddConstraint(
            model_name='queue',
            constraint=models.UniqueConstraint(fields=('provider', 'topic', 'direction'), name='one_queue_per_topic'),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(condition=models.Q(('state__in', ['RETRY', 'HOLD', 'READY', 'PROCESSING'])), fields=['queue', 'state', 'partition', 'arrival_batch', 'arrival_index'], name='error_open'),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(condition=models.Q(('state__in', ['RETRY', 'READY'])), fields=['not_before'], name='error_due'),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(fields=['-last_failed_at', 'id'], name='error_recent'),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(fields=['queue', '-last_failed_at', 'id'], name='error_by_queue_recent'),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(fields=['code', '-last_failed_at', 'id'], name='error_by_code_recent'),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(fields=['interface', '-last_failed_at', 'id'], name='error_by_interface_recent'),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(condition=models.Q(('state__in', ['RETRY', 'HOLD', 'READY', 'PROCESSING'])), fields=['fingerprint', 'queue', 'interface', 'code'], include=('state', 'first_failed_at', 'last_failed_at'), name='error_cause_open'),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=django.contrib.postgres.indexes.HashIndex(fields=['key'], name='error_by_key'),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=django.contrib.postgres.indexes.HashIndex(fields=['message_id'], name='error_by_message'),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(condition=models.Q(('state__in', ['RESOLVED', 'DELETED'])), fields=['closed_at'], name='error_closed'),
        ),
        migrations.AddConstraint(
            model_name='messageerror',
            constraint=models.UniqueConstraint(fields=('queue', 'topic_uuid', 'partition', 'offset'), name='one_error_per_position'),
        ),
        migrations.AddConstraint(
            model_name='messageerror',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['RETRY', 'HOLD', 'READY', 'PROCESSING', 'RESOLVED', 'DELETED'])), name='error_state_known'),
        ),
        migrations.AddConstraint(
            model_name='messageerror',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('state', 'RETRY'), _negated=True), ('not_before__isnull', False), _connector='OR'), name='retry_has_a_time'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(fields=['queue', 'partition', 'offset'], name='delivery_by_place'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(fields=['endpoint', '-ended_at'], name='delivery_by_endpoint'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(fields=['message_id'], name='delivery_by_message'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('state__in', ['SENDING', 'UNKNOWN'])), fields=['queue', 'partition', 'offset'], name='delivery_not_known'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['SENDING', 'DELIVERED', 'FAILED', 'UNKNOWN'])), name='delivery_state_known'),
        ),
        migrations.AddConstraint(
            model_name='channeltarget',
            constraint=models.UniqueConstraint(fields=('channel', 'system'), name='one_target_per_system'),
        ),
        migrations.AddIndex(
            model_name='queuesample',
            index=models.Index(fields=['at'], name='queue_sample_by_time'),
        ),
        migrations.AddConstraint(
            model_name='queuesample',
            constraint=models.UniqueConstraint(fields=('queue', 'at'), name='one_sample_a_moment'),
        ),
        migrations.AddIndex(
            model_name='receipt',
            index=models.Index(fields=['received_at'], name='receipt_by_age'),
        ),
        migrations.AddConstraint(
            model_name='receipt',
            constraint=models.UniqueConstraint(fields=('system', 'sender_id'), name='one_receipt_per_id'),
        ),
        migrations.AddConstraint(
            model_name='receipt',
            constraint=models.UniqueConstraint(fields=('message_id',), name='one_receipt_per_message'),
        ),
        migrations.AddConstraint(
            model_name='relaylease',
            constraint=models.UniqueConstraint(fields=('provider', 'shard'), name='one_relay_per_shard'),
        ),
        migrations.AddConstraint(
            model_name='seenmessage',
            constraint=models.UniqueConstraint(fields=('queue', 'message_id'), name='one_seen_per_id'),
        ),
        migrations.AddConstraint(
            model_name='storedobject',
            constraint=models.UniqueConstraint(fields=('structure', 'key'), name='one_document_per_key'),
        ),
        # Arrival numbers come from one sequence of the database, so that they have one order.
        migrations.RunSQL(
            "CREATE SEQUENCE integration_arrival AS bigint", "DROP SEQUENCE integration_arrival"
        ),
        # Each row is written twice: the second time in place, without touching an index.
        migrations.RunSQL(
            "ALTER TABLE integration_operationitem SET (fillfactor = 50)",
            "ALTER TABLE integration_operationitem RESET (fillfactor)",
        ),
        migrations.RunSQL(TRACKING_BY_DAY, migrations.RunSQL.noop),
    ]
