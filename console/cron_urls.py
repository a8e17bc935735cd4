"""Addresses of cron tasks and cleanup."""

from django.urls import path

from console.views import cleanup, cron, cron_setup, removals

urlpatterns = [
    path("cleanup/", cleanup.cleanup_page, name="cleanup"),
    path("cleanup/removals/<slug:name>/", removals.removal, name="removal"),
    path("cron/", cron.cron_list, name="cron"),
    path("cron/new/", cron_setup.create, name="cron-new"),
    path("cron/effect/", cron_setup.show_effect, name="cron-effect"),
    path("cron/runs/<int:run_id>/", cron.cron_run, name="cron-run"),
    path("cron/<int:instance_id>/", cron.cron_instance, name="cron-instance"),
    path("cron/<int:instance_id>/runs/", cron.run_now, name="run-now"),
    path("cron/<int:instance_id>/runs/new/", cron.one_run, name="cron-one-run"),
    path("cron/<int:instance_id>/pauses/", cron.pause, name="cron-pause"),
    path("cron/<int:instance_id>/activations/", cron.activate, name="cron-activate"),
    path("cron/<int:instance_id>/change/", cron_setup.change, name="cron-change"),
    path("cron/<int:instance_id>/deletion/", cron_setup.delete, name="cron-delete"),
]
