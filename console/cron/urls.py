"""Addresses of cron tasks and cleanup."""

from django.urls import path

from console.cron import cleanup, pages, setup

urlpatterns = [
    path("cleanup/", cleanup.cleanup_page, name="cleanup"),
    path("cleanup/removals/<slug:name>/", cleanup.removal, name="removal"),
    path("cron/", pages.cron_list, name="cron"),
    path("cron/new/", setup.create, name="cron-new"),
    path("cron/effect/", setup.show_effect, name="cron-effect"),
    path("cron/runs/<int:run_id>/", pages.cron_run, name="cron-run"),
    path("cron/<int:instance_id>/", pages.cron_instance, name="cron-instance"),
    path("cron/<int:instance_id>/runs/", pages.run_now, name="run-now"),
    path("cron/<int:instance_id>/runs/new/", pages.one_run, name="cron-one-run"),
    path("cron/<int:instance_id>/pauses/", pages.pause, name="cron-pause"),
    path("cron/<int:instance_id>/activations/", pages.activate, name="cron-activate"),
    path("cron/<int:instance_id>/change/", setup.change, name="cron-change"),
    path("cron/<int:instance_id>/deletion/", setup.delete, name="cron-delete"),
]
