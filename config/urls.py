"""Every address of the installation."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("console.urls")),
]
handler400 = "console.frame.refusals.bad_request"
