"""Every address of the installation."""

from django.apps import apps
from django.contrib import admin
from django.urls import include, path

from console.people.logins import Logout, admin_login, admin_password

urlpatterns = [
    # Before the admin's own: there is one door.
    path("admin/login/", admin_login, name="admin-login"),
    path("admin/logout/", Logout.as_view(), name="admin-logout"),
    path("admin/password_change/", admin_password, name="admin-password"),
    path("admin/password_change/done/", admin_password, name="admin-password-done"),
    path("admin/", admin.site.urls),
    path("", include("console.urls")),
    # Pages of the example, where it is installed.
    *([path("", include("sample.urls"))] if apps.is_installed("sample") else []),
]
handler400 = "console.layout.refusals.bad_request"
handler403 = "console.layout.refusals.forbidden"
handler404 = "console.layout.refusals.not_found"
handler500 = "console.layout.refusals.failed"
