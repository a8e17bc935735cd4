"""What the tests of the queues' set-up share: forms as a browser sends them."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from console.setup.queues.form import QueueForm
from integration.models import Queue

NEW = "queue-new"


def as_sent(form: QueueForm) -> dict[str, Any]:
    """The fields as a browser sends them: what the page shows, untouched."""
    sent = {}
    for bound in form:
        value = bound.value()
        if value is not None and value is not False and value != "":
            sent[bound.name] = value
    return sent


def a_form(client: Client, address: str = "", **fields: Any) -> dict[str, Any]:
    """The form of the page at the address, with these fields filled in."""
    page = client.get(address or reverse(NEW))
    assert page.status_code == 200
    found = as_sent(page.context["form"])
    if "seen" in page.context:
        found["seen"] = page.context["seen"]
    found |= fields
    return {name: value for name, value in found.items() if value is not None}


def a_name() -> str:
    return f"q-{uuid.uuid4().hex[:8]}"


def mistakes(answer: HttpResponse) -> Mapping[str, list[str]]:
    assert answer.status_code == 422
    return answer.context["form"].errors


def made(client: Client, form: dict[str, Any]) -> Queue:
    answer = client.post(reverse(NEW), form)
    assert answer.status_code == 303, answer.context["form"].errors
    assert answer["Location"] == reverse("queue", args=[form["name"]])
    return Queue.objects.get(name=form["name"])
