"""Addresses of the set-up: the same few for every noun."""

from typing import Final

from django.urls import URLPattern, path

from console.setup import channeltests, endpointtests, held, pages, providers, structures, tokens
from console.setup.channels import CHANNELS
from console.setup.endpoints import ENDPOINTS
from console.setup.noun import Noun
from console.setup.providers import PROVIDERS
from console.setup.services import SERVICES
from console.setup.structures import STRUCTURES
from console.setup.systems import SYSTEMS
from console.setup.targets import TARGETS

NOUNS: Final = (SYSTEMS, SERVICES, CHANNELS, STRUCTURES, ENDPOINTS, PROVIDERS)


def addresses(noun: Noun, below: str = "") -> list[URLPattern]:
    """The list, and everything that is asked of one row by its number."""
    one, at, known = noun.one, f"{below}{noun.many}/", {"noun": noun}
    found = [
        path(at, pages.listing, known, name=noun.many),
        path(f"{at}new/", pages.create, known, name=f"{one}-new"),
        path(f"{at}<int:number>/", pages.card, known, name=one),
        path(f"{at}<int:number>/change/", pages.change, known, name=f"{one}-change"),
        path(f"{at}<int:number>/delete/", pages.delete, known, name=f"{one}-delete"),
    ]
    if noun.stops is not None:
        found.append(path(f"{at}<int:number>/switch/", pages.switch, known, name=f"{one}-switch"))
    if noun.held is not None:
        found.append(
            path(f"{at}<int:number>/releases/", held.release, known, name=f"{one}-release")
        )
    return found


urlpatterns = [
    *(pattern for noun in NOUNS for pattern in addresses(noun)),
    *addresses(TARGETS, "channels/"),
    path("channels/<int:number>/test/", channeltests.send, name="channel-test"),
    path("structures/try/", structures.try_sample, name="structure-try-new"),
    path("structures/<int:number>/try/", structures.try_sample, name="structure-try"),
    path("providers/test/", providers.examine, name="provider-test-new"),
    path("providers/<int:number>/test/", providers.examine, name="provider-test"),
    path("systems/<int:number>/http-api/", tokens.http_api, name="http-api"),
    path("systems/<int:number>/http-api/tokens/new/", tokens.new, name="token-new"),
    path(
        "systems/<int:number>/http-api/tokens/<int:token_id>/rotations/",
        tokens.rotate,
        name="token-rotate",
    ),
    path(
        "systems/<int:number>/http-api/tokens/<int:token_id>/revocations/",
        tokens.revoke,
        name="token-revoke",
    ),
    path("endpoints/<int:number>/test/", endpointtests.run, name="endpoint-test"),
]
