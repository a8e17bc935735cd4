"""The project's addresses, by names that the console has, too."""

from django.contrib import admin
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path


@login_not_required
def front(request: HttpRequest) -> HttpResponse:
    return render(request, "base.html")


urlpatterns = [
    path("", front, name="overview"),
    path("sign-in/", front, name="sign-in"),
    path("login/", front, name="login"),
    path("admin/", admin.site.urls),
    path("ops/", include("sluice.urls")),
]
