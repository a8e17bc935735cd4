"""Addresses of bulk operations: pages, and one small resource a verb."""

from django.urls import path

from console.operations import choices, edits, pages

ONE = "operations/<uuid:operation_id>/"
urlpatterns = [
    path("failures/choices/", choices.review, name="review"),
    path("operations/", pages.operation_list, name="operations"),
    path(ONE, pages.operation_page, name="operation"),
    path(f"{ONE}report.csv", pages.report, name="operation-report"),
    path(f"{ONE}starts/", pages.start, name="operation-start"),
    path(f"{ONE}pauses/", pages.pause, name="operation-pause"),
    path(f"{ONE}resumptions/", pages.resume, name="operation-resume"),
    path(f"{ONE}cancellations/", pages.cancel, name="operation-cancel"),
    path(f"{ONE}rates/", pages.change_rate, name="operation-rate"),
    path(f"{ONE}successors/", pages.again, name="operation-again"),
    path(f"{ONE}recipes/", edits.set_recipe, name="operation-recipe"),
    path(f"{ONE}trials/", edits.go_on_trying, name="operation-trial"),
]
