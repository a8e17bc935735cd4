"""One entry for each COPY in the tracking's list of a queue, where each row had two."""

from django.db import migrations, models

# Rows of before, and those of an older release while it still runs, count as a COPY of one row.
FORWARD = """
ALTER TABLE integration_messagetrack DROP CONSTRAINT integration_messagetrack_pkey;
DROP INDEX track_by_queue;
CREATE INDEX track_by_batch ON integration_messagetrack (queue_id, at)
  WHERE batch_rows IS NOT NULL;
-- Not by time: a search by id names a window, and the planner would read all of it.
CREATE INDEX track_by_arrival ON integration_messagetrack USING brin (arrival_batch)
  WITH (pages_per_range = 32, autosummarize = on);
-- Numbers only tell rows of one moment apart: a session may take many at once.
ALTER SEQUENCE integration_messagetrack_id_seq CACHE 500;
"""
BACK = """
ALTER SEQUENCE integration_messagetrack_id_seq CACHE 1;
DROP INDEX track_by_arrival;
DROP INDEX track_by_batch;
CREATE INDEX track_by_queue ON integration_messagetrack (queue_id, at);
ALTER TABLE integration_messagetrack ADD PRIMARY KEY (at, id);
"""


class Migration(migrations.Migration):
    dependencies = [("integration", "0017_relay_batch")]

    operations = [
        migrations.AddField(
            model_name="messagetrack",
            name="batch_rows",
            field=models.IntegerField(
                db_default=1,
                help_text="rows of its COPY, in the first of them; null in the others",
                null=True,
            ),
        ),
        migrations.RunSQL(FORWARD, BACK),
    ]
