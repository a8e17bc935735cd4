"""Addresses of the console: a noun is a page, a verb a small resource that takes a POST."""

from django.contrib.auth.views import PasswordChangeView
from django.urls import include, path, reverse_lazy

from console.api import pages as api_pages
from console.changes import pages as changes
from console.charts import pages as charts
from console.delivering import pages as delivering
from console.delivering import verbs as endpoint_verbs
from console.failures import edits
from console.failures import pages as failures
from console.failures import verbs as failure_verbs
from console.layout import themes
from console.layout.access import needs
from console.monitoring import health, metrics
from console.outbox import choices as outbox_choices
from console.outbox import pages as outbox
from console.overview import pages as overview
from console.people import logins, token_pages
from console.people import pages as people
from console.queues import pages as queues
from console.queues import seeking, waiting
from console.queues import verbs as queue_verbs
from console.tracking import pages as tracking

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics_page, name="metrics"),
    path("login/", logins.Login.as_view(), name="login"),
    path("logout/", logins.Logout.as_view(), name="logout"),
    path("theme/", themes.choose_theme, name="theme"),
    path("account/", people.own_account, name="account"),
    path(
        "account/password/",
        needs()(
            PasswordChangeView.as_view(
                success_url=reverse_lazy("account"), template_name="console/people/password.html"
            )
        ),
        name="password_change",
    ),
    path("account/api/", api_pages.reference, name="operator-api"),
    path("account/tokens/", token_pages.token_list, name="personal-tokens"),
    path("account/tokens/new/", token_pages.new, name="personal-token-new"),
    path(
        "account/tokens/<int:token_id>/revocations/",
        token_pages.revoke,
        name="personal-token-revoke",
    ),
    path("people/", people.people_list, name="people"),
    path("people/new/", people.add_person, name="add-person"),
    path("people/<slug:person_id>/", people.person_page, name="person"),
    path(
        "people/<slug:person_id>/tokens/<int:token_id>/revocations/",
        people.revoke_token,
        name="person-token-revoke",
    ),
    path("refresh/", themes.choose_refresh, name="refresh"),
    path("", overview.overview, name="overview"),
    path("overview/causes/", overview.overview_causes, name="overview-causes"),
    path("queues/", queues.queue_list, name="queues"),
    path("", include("console.setup.urls")),
    path("queues/<slug:name>/", queues.queue_page, name="queue"),
    path("queues/<slug:name>/flow/", queues.flow_check, name="flow"),
    path("queues/<slug:name>/waiting/", waiting.waiting_messages, name="waiting-messages"),
    path("queues/<slug:name>/pauses/", queue_verbs.pause, name="pause"),
    path("queues/<slug:name>/resumptions/", queue_verbs.resume, name="resume"),
    path("queues/<slug:name>/stops/", queue_verbs.stop, name="stop-at"),
    path("queues/<slug:name>/stops/cancellations/", queue_verbs.cancel_stop, name="cancel-stop"),
    path("queues/<slug:name>/position/", seeking.position, name="position"),
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
    path("outbox/choices/", outbox_choices.review, name="review-outbox"),
    path("outbox/choices/<slug:verb>/", outbox_choices.carry_out, name="decide-many"),
    path("outbox/doubts/<int:lease_id>/", outbox.resolve, name="resolve-doubt"),
    path("outbox/branches/", outbox.decide_branch, name="decide-branch"),
    path("outbox/<int:row_id>/", outbox.outbox_row, name="outbox-row"),
    path("outbox/<int:row_id>/reveals/", outbox.reveal, name="reveal-outbox"),
    path("outbox/<int:row_id>/<slug:verb>/", outbox.decide, name="decide-outbox"),
    path("delivery/", delivering.endpoint_list, name="delivery"),
    path("delivery/<slug:name>/", delivering.endpoint_page, name="delivery-endpoint"),
    path("delivery/<slug:name>/pauses/", endpoint_verbs.pause, name="pause-endpoint"),
    path("delivery/<slug:name>/resumptions/", endpoint_verbs.resume, name="resume-endpoint"),
    path("delivery/<slug:name>/enablings/", endpoint_verbs.enable, name="enable-endpoint"),
    path("delivery/<slug:name>/disablings/", endpoint_verbs.disable, name="disable-endpoint"),
    path("", include("console.cron.urls")),
    path("failures/", failures.failure_groups, name="failures"),
    path("failures/messages/", failures.failure_list, name="failure-list"),
    path("", include("console.operations.urls")),
    path("", include("console.bulk.urls")),
    path("charts/", charts.charts, name="charts"),
    path("failures/<uuid:error_id>/", failures.failure_page, name="failure"),
    path("failures/<uuid:error_id>/record/", failures.record, name="record"),
    path("failures/<uuid:error_id>/document/", edits.document, name="document"),
    path("failures/<uuid:error_id>/edits/", edits.edit, name="edit"),
    path("failures/<uuid:error_id>/checks/", edits.check, name="check"),
    path("failures/<uuid:error_id>/reveals/", failure_verbs.reveal, name="reveal"),
    path("failures/<uuid:error_id>/releases/", failure_verbs.release, name="release"),
    path("failures/<uuid:error_id>/holds/", failure_verbs.hold, name="hold"),
    path("failures/<uuid:error_id>/deletions/", failure_verbs.delete, name="delete"),
    path("failures/<uuid:error_id>/restorations/", failure_verbs.restore, name="restore"),
    path("failures/<uuid:error_id>/parkings/", failure_verbs.park, name="park"),
    path("failures/<uuid:error_id>/returns/", failure_verbs.send_back, name="send-back"),
    path("failures/<uuid:error_id>/arrivals/", failure_verbs.arrived, name="arrived"),
    # A message id may hold any character: it is asked for by query.
    path("tracking/", tracking.track_list, name="tracking"),
    path("tracking/message/", tracking.tracked_message, name="tracked-message"),
    path("tracking/message/reveals/", tracking.reveal, name="reveal-tracked"),
    path("", include("console.restore.urls")),
    path("changes/", changes.change_list, name="changes"),
    path("changes/<int:number>/", changes.change_page, name="change"),
]
