"""Addresses of the HTTP API. They are no pages: console.http_api.entrance answers them."""

from typing import Final

from django.urls import path

from console.http_api import views

LEGACY: Final = {"is_legacy": True}

urlpatterns = [
    path("esqueue/<str:system>/messages/<path:message_id>", views.message, name="http-api-message"),
    path("esqueue/<str:system>/<str:service>", views.esqueue, name="http-api-esqueue"),
    path("es/<str:system>/<str:service>", views.es, name="http-api-es"),
    path("meaweb/esqueue/<str:system>/<str:service>", views.esqueue, LEGACY),
    path("meaweb/es/<str:system>/<str:service>", views.es, LEGACY),
    path("api/publish/<str:channel>", views.publish, name="http-api-publish"),
    path("openapi.json", views.document, name="http-api-openapi"),
]
