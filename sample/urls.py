"""Addresses that are there only where the sample is installed."""

from django.urls import path

from sample import pages

urlpatterns = [path("delivery/sample/partners/", pages.partners_page, name="sample-partners")]
