"""Every address of the installation."""

from django.apps import apps
from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("console.urls")),
    # Pages of the example, where it is installed.
    *([path("", include("sample.urls"))] if apps.is_installed("sample") else []),
]
handler400 = "console.frame.refusals.bad_request"
