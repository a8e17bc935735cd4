"""Addresses of the console: a noun is a page, a verb a small resource that takes a POST."""

from django.urls import include, path

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
from console.people import (
    code_pages,
    confirm_pages,
    logins,
    role_pages,
    session_pages,
    token_pages,
)
from console.people import pages as people
from console.people.company import pages as company
from console.people.company import rule_pages
from console.people.second import pages as second
from console.people.second import step as second_step
from console.queues import pages as queues
from console.queues import seeking, waiting
from console.queues import verbs as queue_verbs
from console.tracking import pages as tracking

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics_page, name="metrics"),
    path("login/", logins.Login.as_view(), name="login"),
    path("login/second/", second_step.second_step, name="login-second"),
    path("login/code/", code_pages.enter, name="login-code"),
    path("login/company/", company.begin, name="company-login"),
    path("login/company/callback/", company.callback, name="company-callback"),
    path("logout/", logins.Logout.as_view(), name="logout"),
    path("theme/", themes.choose_theme, name="theme"),
    path("account/", people.own_account, name="account"),
    path("account/password/", needs()(logins.PasswordChange.as_view()), name="password_change"),
    path("account/confirm/", confirm_pages.confirm_page, name="confirm"),
    path("account/company/connection/", company.begin_connecting, name="company-connect"),
    path("account/company/disconnections/", company.disconnect, name="company-disconnect"),
    path("account/sessions/", session_pages.session_list, name="sessions"),
    path("account/sessions/endings/", session_pages.end_others, name="sessions-end"),
    path("account/sessions/<int:session_id>/endings/", session_pages.end_one, name="session-end"),
    path("account/second-factors/", second.factor_list, name="second-factors"),
    path("account/second-factors/app/", second.add_app, name="second-factor-app"),
    path("account/second-factors/passkey/", second.add_passkey, name="second-factor-passkey"),
    path("account/second-factors/codes/", second.new_codes, name="second-factor-codes"),
    path(
        "account/second-factors/<int:factor_id>/removals/",
        second.remove,
        name="second-factor-remove",
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
    path("people/groups/", rule_pages.rule_list, name="company-groups"),
    path("people/groups/new/", rule_pages.add_rule, name="company-group-new"),
    path("people/groups/<int:rule_id>/", rule_pages.change_rule, name="company-group"),
    path(
        "people/groups/<int:rule_id>/removals/",
        rule_pages.delete_rule,
        name="company-group-delete",
    ),
    path("people/roles/", role_pages.role_list, name="roles"),
    path("people/roles/<int:role_id>/", role_pages.role_page, name="role"),
    path("people/<slug:person_id>/", people.person_page, name="person"),
    path(
        "people/<slug:person_id>/tokens/<int:token_id>/revocations/",
        people.revoke_token,
        name="person-token-revoke",
    ),
    path(
        "people/<slug:person_id>/sessions/endings/",
        session_pages.end_of_person,
        name="person-sessions-end",
    ),
    path(
        "people/<slug:person_id>/second-factors/removals/",
        second.remove_of_person,
        name="person-second-factors-remove",
    ),
    path(
        "people/<slug:person_id>/company/disconnections/",
        company.disconnect_person,
        name="person-company-disconnect",
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
    path("queues/<slug:name>/beginnings/", queue_verbs.begin_sooner, name="begin-sooner"),
    path(
        "queues/<slug:name>/gaps/<uuid:gap_id>/acknowledgements/",
        queue_verbs.acknowledge_gap,
        name="acknowledge-gap",
    ),
    path("", include("console.notices.urls")),
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
