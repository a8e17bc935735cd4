"""What a failure waits for, and the objects that have arrived."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0002_key_order'),
    ]

    operations = [
        migrations.CreateModel(
            name='ArrivedObject',
            fields=[
                ('object', models.BinaryField(help_text='kind and key, hashed', primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=100)),
                ('key', models.CharField(max_length=500)),
                ('arrived_at', models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name='messageerror',
            name='waits_for',
            field=models.BinaryField(help_text='both hashed, however long the key is', null=True),
        ),
        migrations.AddField(
            model_name='messageerror',
            name='waits_key',
            field=models.CharField(blank=True, db_default='', max_length=500),
        ),
        migrations.AddField(
            model_name='messageerror',
            name='waits_kind',
            field=models.CharField(blank=True, db_default='', help_text='what it waits for: kind and key', max_length=100),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(condition=models.Q(('state', 'RETRY'), ('waits_for__isnull', False)), fields=['waits_kind', 'waits_for'], name='error_waits'),
        ),
    ]
