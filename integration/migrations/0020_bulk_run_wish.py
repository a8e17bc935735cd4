from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0019_bulk_runs'),
    ]

    operations = [
        migrations.AddField(
            model_name='bulkrun',
            name='wish',
            field=models.JSONField(default=dict, help_text='what a person said; asked again by a clone'),
        ),
        migrations.AlterField(
            model_name='bulkrun',
            name='parameters',
            field=models.JSONField(default=dict, help_text='what the job is told'),
        ),
        migrations.AddField(
            model_name='bulkrun',
            name='facts',
            field=models.JSONField(default=dict, help_text='what the job tells of itself'),
        ),
        migrations.AddField(
            model_name='bulkrun',
            name='log',
            field=models.TextField(blank=True, default='', help_text='the last lines the job said, each with its time'),
        ),
    ]
