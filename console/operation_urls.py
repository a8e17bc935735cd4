"""Addresses of bulk operations: pages, and one small resource a verb."""

from django.urls import path

from console.views import bulk, operation_edits, operations

ONE = "operations/<uuid:operation_id>/"
urlpatterns = [
    path("failures/choices/", bulk.review, name="review"),
    path("operations/", operations.operation_list, name="operations"),
    path(ONE, operations.operation_page, name="operation"),
    path(f"{ONE}report.csv", operations.report, name="operation-report"),
    path(f"{ONE}starts/", operations.start, name="operation-start"),
    path(f"{ONE}pauses/", operations.pause, name="operation-pause"),
    path(f"{ONE}resumptions/", operations.resume, name="operation-resume"),
    path(f"{ONE}cancellations/", operations.cancel, name="operation-cancel"),
    path(f"{ONE}rates/", operations.change_rate, name="operation-rate"),
    path(f"{ONE}successors/", operations.again, name="operation-again"),
    path(f"{ONE}recipes/", operation_edits.set_recipe, name="operation-recipe"),
    path(f"{ONE}trials/", operation_edits.go_on_trying, name="operation-trial"),
]
