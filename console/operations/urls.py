"""Addresses of operations: pages, and one small resource a verb."""

from django.urls import path

from console.operations import pages, verbs

ONE = "operations/<uuid:operation_id>/"
urlpatterns = [
    path("failures/choices/", verbs.review, name="review"),
    path("operations/", pages.operation_list, name="operations"),
    path(ONE, pages.operation_page, name="operation"),
    path(f"{ONE}report.csv", pages.report, name="operation-report"),
    path(f"{ONE}starts/", verbs.start, name="operation-start"),
    path(f"{ONE}pauses/", verbs.pause, name="operation-pause"),
    path(f"{ONE}resumptions/", verbs.resume, name="operation-resume"),
    path(f"{ONE}cancellations/", verbs.cancel, name="operation-cancel"),
    path(f"{ONE}rates/", verbs.change_rate, name="operation-rate"),
    path(f"{ONE}successors/", verbs.again, name="operation-again"),
    path(f"{ONE}recipes/", verbs.set_recipe, name="operation-recipe"),
    path(f"{ONE}trials/", verbs.go_on_trying, name="operation-trial"),
]
