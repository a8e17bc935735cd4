"""Addresses of the set-up: the same few for every noun, and what one of them has alone."""

from typing import Final

from django.urls import URLPattern, path

from console.setup import (
    channels,
    connections,
    endpoints,
    event_subscriptions,
    masking_rules,
    notice_recipients,
    pages,
    partners,
    providers,
    structures,
    testmessages,
    tokens,
)
from console.setup.notice_rules import RULES
from console.setup.noun import Noun
from console.setup.queues import pages as queues
from console.setup.services import SERVICES
from console.setup.systems import SYSTEMS
from console.setup.targets import TARGETS

NOUNS: Final = (
    SYSTEMS,
    SERVICES,
    channels.CHANNELS,
    structures.STRUCTURES,
    endpoints.ENDPOINTS,
    providers.PROVIDERS,
    connections.CONNECTIONS,
    TARGETS,
    RULES,
    notice_recipients.RECIPIENTS,
    masking_rules.MASKING_RULES,
    event_subscriptions.SUBSCRIPTIONS,
)


def addresses(noun: Noun) -> list[URLPattern]:
    """The list, and everything that is asked of one row by its number."""
    one, at, known = noun.one, f"{noun.below}{noun.many}/", {"noun": noun}
    row = f"{at}<int:number>/"
    patterns = [
        path(at, pages.listing, known, name=noun.many),
        path(f"{at}new/", pages.create, known, name=f"{one}-new"),
        path(row, pages.card, known, name=one),
        path(f"{row}change/", pages.change, known, name=f"{one}-change"),
        path(f"{row}delete/", pages.delete, known, name=f"{one}-delete"),
    ]
    if noun.has_switch:
        patterns.append(path(f"{row}switch/", pages.switch, known, name=f"{one}-switch"))
    if noun.holds:
        patterns.append(path(f"{row}releases/", pages.release, known, name=f"{one}-release"))
    return patterns


TOKENS: Final = "systems/<int:number>/http-api/"
TOKEN: Final = f"{TOKENS}tokens/<int:token_id>/"
TESTS: Final = "queues/<slug:name>/test-messages/"
urlpatterns = [
    *(pattern for noun in NOUNS for pattern in addresses(noun)),
    path("channels/<int:number>/test/", channels.send_test, name="channel-test"),
    path("channels/<int:number>/subjects/", channels.subjects, name="channel-subjects"),
    path("connections/<int:number>/branches/", connections.decide, name="connection-branch"),
    path("connections/<int:number>/log/", connections.accept_log, name="connection-log"),
    path("structures/try/", structures.try_sample, name="structure-try-new"),
    path("structures/<int:number>/try/", structures.try_sample, name="structure-try"),
    path("masking-rules/try/", masking_rules.try_sample, name="masking-rule-try-new"),
    path("masking-rules/<int:number>/try/", masking_rules.try_sample, name="masking-rule-try"),
    path("providers/test/", providers.examine, name="provider-test-new"),
    path("providers/<int:number>/test/", providers.examine, name="provider-test"),
    path("providers/<int:number>/forget/", providers.forget_schemas, name="provider-forget"),
    path(TOKENS, tokens.http_api, name="http-api"),
    path(f"{TOKENS}tokens/new/", tokens.new, name="token-new"),
    path(f"{TOKEN}rotations/", tokens.rotate, name="token-rotate"),
    path(f"{TOKEN}revocations/", tokens.revoke, name="token-revoke"),
    path(
        "notice-recipients/<int:number>/test/",
        notice_recipients.send_test,
        name="notice-recipient-test",
    ),
    path("endpoints/<int:number>/test/", endpoints.run_test, name="endpoint-test"),
    # They stand before the page of a queue of any name.
    path("queues/new/", queues.new, name="queue-new"),
    path("queues/new/effects/", queues.effects, name="queue-new-effects"),
    path("queues/<slug:name>/change/", queues.change, name="queue-change"),
    path("queues/<slug:name>/effects/", queues.effects, name="queue-effects"),
    path("queues/<slug:name>/delete/", queues.delete, name="queue-delete"),
    path(TESTS, testmessages.send, name="test-message"),
    path(f"{TESTS}<slug:message_id>/", testmessages.outcome, name="test-message-outcome"),
    path("services/<int:number>/test-message/", testmessages.of_service, name="service-test"),
    path("partners/new/", partners.begin, name="partner-new"),
    path("partners/new/<slug:name>/", partners.step, name="partner-step"),
    path("partners/new/message/<slug:message_id>/", partners.outcome, name="partner-outcome"),
]
