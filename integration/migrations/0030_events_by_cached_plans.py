from django.db import migrations


# As in 0029. In SQL it was planned anew by each call, a third of a millisecond for each failure;
# PL/pgSQL keeps the plan for the session. {begin}, {end}: what the language asks for.
NOTE = """
CREATE OR REPLACE FUNCTION integration_note_event(
    kind text, system_id bigint, queue_id bigint, key text, actor text, subject jsonb
) RETURNS void LANGUAGE {language} AS $$ {begin}
    INSERT INTO integration_pendingevent (event_id, subscription_id, kind, at, key, actor, subject)
    SELECT gen_random_uuid(), s.id, $1, clock_timestamp(), left($4, 200), left($5, 150), $6
    FROM integration_eventsubscription s
    WHERE s.enabled AND jsonb_exists(s.kinds, $1) AND (s.system_id IS NULL OR s.system_id = $2)
        -- What happens to the queues that events take is no event: it would go round.
        AND NOT EXISTS (
            SELECT 1 FROM integration_queue q, integration_queue own
            JOIN integration_channeltarget t ON t.queue_id = own.id
            JOIN integration_eventsubscription o ON o.channel_id = t.channel_id
            WHERE q.id = $3 AND (q.id = own.error_queue_id
                OR (q.provider_id = own.provider_id AND q.topic = own.topic)))
    -- Who deletes the subscription waits, instead of failing what happens here at its commit.
    FOR KEY SHARE OF s
{end} $$;
"""
PLPGSQL = NOTE.format(language="plpgsql", begin="BEGIN", end="; END")
SQL = NOTE.format(language="sql", begin="", end="")


class Migration(migrations.Migration):

    dependencies = [
        ('integration', '0029_pending_events'),
    ]

    operations = [
        migrations.RunSQL(PLPGSQL, SQL),
    ]
