"""Addresses of endpoints at work; what they are set to is under Set up."""

from django.urls import path

from console.delivering import pages, verbs

urlpatterns = [
    path("delivery/", pages.endpoint_list, name="delivery"),
    path("delivery/<slug:name>/", pages.endpoint_page, name="delivery-endpoint"),
    path("delivery/<slug:name>/pauses/", verbs.pause, name="pause-endpoint"),
    path("delivery/<slug:name>/resumptions/", verbs.resume, name="resume-endpoint"),
    path("delivery/<slug:name>/enablings/", verbs.enable, name="enable-endpoint"),
    path("delivery/<slug:name>/disablings/", verbs.disable, name="disable-endpoint"),
]
