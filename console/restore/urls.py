"""Addresses of the page for copied and restored databases."""

from django.urls import path

from console.restore import pages

urlpatterns = [
    path("restore/", pages.restore_page, name="restore-page"),
    path("restore/adoptions/", pages.adopt, name="adopt-database"),
    path("restore/declarations/", pages.declare, name="declare-restore"),
    path("restore/looks/", pages.look, name="look-again"),
    path("restore/findings/<int:finding_id>/", pages.decide, name="decide-finding"),
]
