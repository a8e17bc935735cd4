"""Addresses of the HTTP door. They are no pages: console.door.entrance answers them."""

from typing import Final

from django.urls import path

from console.door import views

LEGACY: Final = {"is_legacy": True}

urlpatterns = [
    path("esqueue/<str:system>/messages/<path:message_id>", views.message, name="door-message"),
    path("esqueue/<str:system>/<str:service>", views.esqueue, name="door-esqueue"),
    path("es/<str:system>/<str:service>", views.es, name="door-es"),
    path("meaweb/esqueue/<str:system>/<str:service>", views.esqueue, LEGACY),
    path("meaweb/es/<str:system>/<str:service>", views.es, LEGACY),
    path("api/publish/<str:channel>", views.publish, name="door-publish"),
    path("openapi.json", views.document, name="door-openapi"),
]
