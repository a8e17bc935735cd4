"""The console for a project's addresses: `path("ops/", include("sluice.urls"))`."""

from django.urls import path

from console.mounting import mounted

urlpatterns = [path("", mounted, name="sluice"), path("<path:rest>", mounted)]
