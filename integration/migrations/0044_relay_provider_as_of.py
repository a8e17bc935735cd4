from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0043_suspect_receipt'),
    ]

    operations = [
        migrations.AddField(
            model_name='relaylease',
            name='provider_as_of',
            field=models.TextField(blank=True, db_default='', default='', help_text='What the provider was then: another text after a change; empty = not noted yet.'),
        ),
    ]
