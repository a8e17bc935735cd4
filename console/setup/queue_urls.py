"""Addresses of the set-up of queues; they stand before the page of a queue of any name."""

from django.urls import path

from console.setup import partners, queue_removal, queues, testmessages

urlpatterns = [
    path("queues/new/", queues.new, name="queue-new"),
    path("queues/new/effects/", queues.effects, name="queue-new-effects"),
    path("queues/<slug:name>/change/", queues.change, name="queue-change"),
    path("queues/<slug:name>/effects/", queues.effects, name="queue-effects"),
    path("queues/<slug:name>/delete/", queue_removal.delete, name="queue-delete"),
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
