"""Addresses of the console: a noun is a page, a verb a small resource that takes a POST."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from console.views import (
    bulk,
    cron,
    decisions,
    edits,
    failures,
    health,
    outbox,
    overview,
    queue_verbs,
    queues,
    themes,
)

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("theme/", themes.choose_theme, name="theme"),
    path("", overview.overview, name="overview"),
    path("queues/<slug:name>/", queues.queue_page, name="queue"),
    path("queues/<slug:name>/flow/", queues.flow_check, name="flow"),
    path("queues/<slug:name>/pauses/", queue_verbs.pause, name="pause"),
    path("queues/<slug:name>/resumptions/", queue_verbs.resume, name="resume"),
    path("queues/<slug:name>/enablings/", queue_verbs.enable, name="enable"),
    path("queues/<slug:name>/disablings/", queue_verbs.disable, name="disable"),
    path("queues/<slug:name>/adoptions/start/", queue_verbs.adopt_start, name="adopt-start"),
    path("queues/<slug:name>/adoptions/end/", queue_verbs.adopt_end, name="adopt-end"),
    path("queues/<slug:name>/adoptions/none/", queue_verbs.stay, name="stay"),
    path(
        "queues/<slug:name>/gaps/<uuid:gap_id>/acknowledgements/",
        queue_verbs.acknowledge_gap,
        name="acknowledge-gap",
    ),
    path("outbox/", outbox.outbox_list, name="outbox"),
    path("outbox/choices/", outbox.decide_many, name="decide-many"),
    path("outbox/doubts/<int:lease_id>/", outbox.resolve, name="resolve-doubt"),
    path("outbox/<int:row_id>/", outbox.outgoing_row, name="outgoing"),
    path("outbox/<int:row_id>/<slug:verb>/", outbox.decide, name="decide-outgoing"),
    path("cron/", cron.cron_list, name="cron"),
    path("cron/<int:instance_id>/", cron.cron_instance, name="cron-instance"),
    path("cron/<int:instance_id>/runs/", cron.run_now, name="run-now"),
    path("failures/", failures.failure_list, name="failures"),
    path("failures/choices/", bulk.review, name="review"),
    path("failures/choices/<slug:verb>/", bulk.carry_out, name="carry-out"),
    path("failures/<uuid:error_id>/", failures.failure_page, name="failure"),
    path("failures/<uuid:error_id>/record/", failures.record, name="record"),
    path("failures/<uuid:error_id>/edits/", edits.edit, name="edit"),
    path("failures/<uuid:error_id>/releases/", decisions.release, name="release"),
    path("failures/<uuid:error_id>/holds/", decisions.hold, name="hold"),
    path("failures/<uuid:error_id>/deletions/", decisions.delete, name="delete"),
    path("failures/<uuid:error_id>/restorations/", decisions.restore, name="restore"),
]
