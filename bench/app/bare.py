"""The yardstick for the HTTP API: a view that inserts one row, in the same project."""

from django.db import models
from django.http import HttpRequest, JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt

TABLE = "bench_posted"


class Posted(models.Model):
    """One body, as it came. The benchmark makes the table."""

    body = models.BinaryField()
    posted_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "bench"
        managed = False
        db_table = TABLE

    def __str__(self) -> str:
        return str(self.pk)


@csrf_exempt
def bare(request: HttpRequest) -> JsonResponse:
    """No token, no route, no look into the body, no receipt."""
    row = Posted._default_manager.create(body=request.body)
    return JsonResponse({"id": row.pk}, status=202)


urlpatterns = [path("bare", bare), path("", include("config.urls"))]
