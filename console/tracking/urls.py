"""Addresses of tracked messages. A message id may hold any character: it is asked for by query."""

from django.urls import path

from console.tracking import pages

urlpatterns = [
    path("tracking/", pages.track_list, name="tracking"),
    path("tracking/message/", pages.tracked_message, name="tracked-message"),
]
