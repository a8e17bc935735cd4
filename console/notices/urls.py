"""Addresses of notices."""

from django.urls import path

from console.notices import pages

ONE = "notices/<int:notice_id>/"
urlpatterns = [
    path("notices/", pages.notice_list, name="notices"),
    path(f"{ONE}acknowledgements/", pages.acknowledge, name="acknowledge-notice"),
    path(f"{ONE}acknowledgements/withdrawals/", pages.take_back, name="take-back-notice"),
    path(f"{ONE}snoozes/", pages.snooze, name="snooze-notice"),
]
