"""Addresses of the set-up of queues; they stand before the page of a queue of any name."""

from django.urls import path

from console.setup import partners, testmessages
from console.setup.queues import pages, removal

urlpatterns = [
    path("queues/new/", pages.new, name="queue-new"),
    path("queues/new/effects/", pages.effects, name="queue-new-effects"),
    path("queues/<slug:name>/change/", pages.change, name="queue-change"),
    path("queues/<slug:name>/effects/", pages.effects, name="queue-effects"),
    path("queues/<slug:name>/delete/", removal.delete, name="queue-delete"),
    path("queues/<slug:name>/test-messages/", testmessages.send, name="test-message"),
    path(
        "queues/<slug:name>/test-messages/<slug:message_id>/",
        testmessages.outcome,
        name="test-message-outcome",
    ),
    path("services/<int:number>/test-message/", testmessages.of_service, name="service-test"),
    path("partners/new/", partners.begin, name="partner-new"),
    path("partners/new/<slug:name>/", partners.step, name="partner-step"),
    path("partners/new/message/<slug:message_id>/", partners.outcome, name="partner-outcome"),
]
