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
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('object', models.BinaryField(help_text='kind and key, hashed')),
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
        migrations.AddField(
            model_name='messageerror',
            name='woken_by',
            field=models.DateTimeField(help_text='the arrival that made it due last', null=True),
        ),
        migrations.AddIndex(
            model_name='messageerror',
            index=models.Index(condition=models.Q(('state', 'RETRY'), ('waits_for__isnull', False)), fields=['waits_kind', 'waits_for'], name='error_waits'),
        ),
        migrations.AddIndex(
            model_name='arrivedobject',
            index=models.Index(fields=['object', 'arrived_at'], name='arrived_object'),
        ),
        migrations.AddIndex(
            model_name='arrivedobject',
            index=models.Index(fields=['arrived_at'], name='arrived_by_age'),
        ),
    ]
