"""The enterprise services that a person may know of."""

from django.db.models import Exists, OuterRef, Q, QuerySet

from integration.models import EnterpriseService, MessageError, Queue
from integration.policy.states import OPEN
from integration.selectors.scope import Scope


def services(scope: Scope) -> QuerySet[EnterpriseService]:
    """By interface, with their structures.

    All people share services; only one that queues of others alone have as their default belongs
    to those. It is still known to whom one of its messages has failed: its page says why.
    """
    found = EnterpriseService.objects.select_related("structure").order_by("interface")
    if scope.is_whole:
        return found
    defaults = Queue.objects.filter(default_service=OuterRef("pk"))
    failed = MessageError.objects.filter(
        scope.within("queue__system"),
        interface=OuterRef("interface"),
        state__in=[state.value for state in OPEN],
    )
    mine = Exists(defaults.filter(scope.within("system")))
    return found.filter(Q(~Exists(defaults)) | Q(mine) | Q(Exists(failed)))
