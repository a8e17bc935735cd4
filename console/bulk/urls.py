"""Addresses of bulk jobs: runs, the forms that ask for them, uploads and what runs wrote."""

from django.urls import path

from console.bulk import asking, pages, uploads

ONE = "bulk/<uuid:bulk_run_id>/"
urlpatterns = [
    path("bulk/", pages.run_list, name="bulk"),
    path("bulk/new/<slug:job>/", asking.new, name="bulk-new"),
    path("bulk/uploads/", uploads.upload, name="bulk-uploads"),
    path(ONE, pages.run_page, name="bulk-run"),
    path(f"{ONE}files/<path:file>", pages.run_file, name="bulk-file"),
    path(f"{ONE}cancellations/", pages.cancel, name="bulk-cancel"),
    path(f"{ONE}repetitions/", pages.again, name="bulk-again"),
]
