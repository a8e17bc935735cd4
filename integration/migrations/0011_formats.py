import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import integration.models.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0010_concurrency'),
    ]

    operations = [
        migrations.AddField(
            model_name='provider',
            name='registry_url',
            field=models.CharField(blank=True, db_default='', default='', help_text='Empty = none.', max_length=500),
        ),
        migrations.AddField(
            model_name='provider',
            name='registry_username',
            field=models.CharField(blank=True, db_default='', default='', max_length=200),
        ),
        migrations.AddField(
            model_name='provider',
            name='registry_password',
            field=integration.models.fields.SecretField(blank=True, db_default='', default='', help_text='Stored encrypted; never shown.'),
        ),
        migrations.AddField(
            model_name='provider',
            name='registry_ca_certificate',
            field=models.TextField(blank=True, db_default='', default='', help_text="PEM; empty = the system's own list"),
        ),
        migrations.AddField(
            model_name='provider',
            name='registry_client_certificate',
            field=models.TextField(blank=True, db_default='', default='', help_text='PEM'),
        ),
        migrations.AddField(
            model_name='provider',
            name='registry_client_key',
            field=integration.models.fields.SecretField(blank=True, db_default='', default='', help_text='PEM; stored encrypted, never shown.'),
        ),
        migrations.AddField(
            model_name='enterpriseservice',
            name='format',
            field=models.CharField(blank=True, choices=[('', 'any: what begins like a registry\'s message is one'), ('text', 'JSON or XML text'), ('avro', 'Avro'), ('json_schema', 'JSON Schema'), ('protobuf', 'Protobuf')], db_default='', default='', max_length=12),
        ),
        migrations.AddField(
            model_name='publishchannel',
            name='subject_by',
            field=models.CharField(blank=True, choices=[('', 'no registry: as text'), ('topic', 'the topic: <topic>-value'), ('record', 'the record: its full name'), ('topic_record', 'both: <topic>-<record>')], db_default='', default='', help_text="Write by a schema of the provider's registry; empty = as text.", max_length=12),
        ),
        migrations.AddField(
            model_name='publishchannel',
            name='schema_record',
            field=models.CharField(blank=True, db_default='', default='', help_text="The record's full name, where the subject is named after it.", max_length=200),
        ),
        migrations.AddField(
            model_name='publishchannel',
            name='schema_version',
            field=models.PositiveIntegerField(blank=True, help_text='Empty = the latest.', null=True, validators=[django.core.validators.MinValueValidator(1)]),
        ),
        migrations.AddField(
            model_name='messageerror',
            name='schema_id',
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name='messageerror',
            name='schema_subject',
            field=models.CharField(blank=True, db_default='', default='', max_length=255),
        ),
        migrations.AddField(
            model_name='messageerror',
            name='schema_version',
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name='messagetrack',
            name='schema_id',
            field=models.IntegerField(help_text="of a schema registry's format", null=True),
        ),
        migrations.CreateModel(
            name='RegistrySchema',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('registry', models.CharField(help_text='the address it was found at', max_length=500)),
                ('schema_id', models.IntegerField()),
                ('kind', models.CharField(max_length=10)),
                ('subject', models.CharField(blank=True, max_length=255)),
                ('version', models.IntegerField(null=True)),
                ('digest', models.CharField(max_length=32)),
                ('seen_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('provider', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='schemas', to='integration.provider')),
            ],
            options={
                'ordering': ['schema_id'],
                'constraints': [models.UniqueConstraint(fields=('provider', 'registry', 'schema_id'), name='one_schema_per_id')],
            },
        ),
    ]
