"""Who gets in at the HTTP API, by which credentials, and what the others are told."""

import base64
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.http_api import reading
from integration.http_api import callers, remembered
from integration.models import ApiToken, EnterpriseService, ExternalSystem, OutboxRow
from tests.support.http_api import SERVICE, Partner, a_partner, a_token, client, forget, problem

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def partner() -> Partner:
    return a_partner()


class TestCredentials:
    def test_bearer_and_basic_by_either_name(self, partner: Partner) -> None:
        for user in (partner.row.name, partner.system.name):
            sent = {"Authorization": f"Basic {basic(user, partner.token)}"}
            assert partner.post({}, headers=sent).status_code == 202
        assert (
            partner.post({}, headers={"Authorization": f"bearer {partner.token}"}).status_code
            == 202
        )

    def test_what_is_wrong_is_not_told_apart(self, partner: Partner) -> None:
        wrong = [
            None,
            "Bearer",
            "Bearer nonsense",
            f"Bearer {partner.token}x",
            f"Bearer {partner.row.prefix}_{'x' * 43}",
            "Bearer sluice_\x00bcdefgh_x",
            f"Bearer {partner.token},Bearer {partner.token}",
            f"Basic {basic('otto', partner.token)}",
            f"Basic {partner.token}",
            "Basic \xff",
            f"Digest {partner.token}",
        ]
        answers = [partner.post({}, headers={"Authorization": sent}) for sent in wrong]
        told = {answer.content for answer in answers}
        assert len(told) == 1
        for answer in answers:
            problem(answer, 401, "NOT_AUTHENTICATED")
            assert answer["WWW-Authenticate"].startswith("Bearer ")
        assert not OutboxRow.objects.exists()

    def test_the_address_never_carries_a_token(self, partner: Partner) -> None:
        for name in ("token", "access_token", "_maxauth", "apikey", "Authorization"):
            path = f"{partner.address()}?{name}={partner.token}"
            problem(
                partner.post({}, path=path, headers={"Authorization": None}),
                401,
                "NOT_AUTHENTICATED",
            )

    def test_expired_and_revoked_tokens_say_so_to_their_owner(self, partner: Partner) -> None:
        for change, word in (
            ({"expires_at": timezone.now() - timedelta(seconds=1)}, "expired"),
            ({"revoked_at": timezone.now()}, "revoked"),
        ):
            ApiToken.objects.update(**change)
            forget()
            answer = partner.post({})
            assert word in problem(answer, 401, "TOKEN_OVER")["detail"]
            assert "WWW-Authenticate" in answer
        stranger = {"Authorization": f"Bearer {partner.token}x"}
        problem(partner.post({}, headers=stranger), 401, "NOT_AUTHENTICATED")

    def test_two_tokens_are_valid_at_a_time(self, partner: Partner) -> None:
        second, _ = a_token(partner.system)
        assert partner.post({}).status_code == 202
        assert partner.post({}, headers={"Authorization": f"Bearer {second}"}).status_code == 202

    def test_only_the_hash_is_stored(self, partner: Partner) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT t::text FROM integration_apitoken t")
            (stored,) = cursor.fetchone()
        assert partner.token not in stored
        assert partner.token.removeprefix(f"{partner.row.prefix}_") not in stored
        assert partner.row.prefix in stored


class TestScope:
    def test_another_system_is_refused_whether_it_exists_or_not(self, partner: Partner) -> None:
        other = a_partner()
        for system in (other.system.name, "nobody"):
            path = f"/esqueue/{system}/{SERVICE}"
            problem(partner.post({}, path=path), 403, "WRONG_SYSTEM")

    def test_each_right_is_asked_for(self, partner: Partner) -> None:
        nothing = {"may_post": False, "may_call": False, "may_read": False}
        text, _ = a_token(partner.system, **nothing)
        partner.token = text
        problem(partner.post({}), 403, "NOT_IN_SCOPE")
        problem(partner.post({}, address="es"), 403, "NOT_IN_SCOPE")
        problem(partner.ask("x"), 403, "NOT_IN_SCOPE")

    def test_a_token_may_be_limited_to_services(self, partner: Partner) -> None:
        EnterpriseService.objects.create(interface="Other")
        partner.token, _ = a_token(partner.system, services=[SERVICE])
        assert partner.post({}).status_code == 202
        problem(partner.post({}, service="Other"), 403, "NOT_IN_SCOPE")
        problem(partner.post({}, service="Nowhere"), 403, "NOT_IN_SCOPE")

    def test_such_a_token_asks_about_messages_of_its_services_alone(self, partner: Partner) -> None:
        EnterpriseService.objects.create(interface="Other")
        mine = partner.post({}).json()["message_id"]
        others = partner.post({}, service="Other").json()["message_id"]
        assert partner.ask(others).status_code == 200
        partner.token, _ = a_token(partner.system, services=[SERVICE])
        assert partner.ask(mine).status_code == 200
        problem(partner.ask(others), 404, "NO_SUCH_MESSAGE")


class TestTheIncumbentsWay:
    def maxauth(self, partner: Partner) -> dict[str, str | None]:
        sent = basic(partner.system.name, partner.token)
        return {"Authorization": None, "MAXAUTH": sent}

    def test_it_is_open_only_where_it_is_switched_on(self, partner: Partner) -> None:
        path = f"/meaweb{partner.address()}"
        problem(partner.post({}, path=path), 403, "LEGACY_DOOR_OFF")
        problem(partner.post({}, headers=self.maxauth(partner)), 403, "LEGACY_DOOR_OFF")
        ExternalSystem.objects.update(legacy_door=True)
        forget()
        assert partner.post({}, path=path).status_code == 202
        assert partner.post({}, headers=self.maxauth(partner)).status_code == 202
        body, kind = b"<A/>", ""
        both = partner.post(body, path=path, headers=self.maxauth(partner), content_type=kind)
        assert both.status_code == 202

    def test_a_wrong_password_is_a_wrong_password(self, partner: Partner) -> None:
        partner.token += "x"
        problem(partner.post({}, headers=self.maxauth(partner)), 401, "NOT_AUTHENTICATED")


class TestUse:
    def test_it_is_noted_at_most_once_a_minute(self, partner: Partner) -> None:
        partner.post({})
        first = ApiToken.objects.get(pk=partner.row.pk).last_used_at
        assert first is not None
        partner.post({})
        callers._touched.clear()  # as another process would have it
        partner.post({})
        assert ApiToken.objects.get(pk=partner.row.pk).last_used_at == first

    def test_a_known_caller_costs_no_query(
        self, partner: Partner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(remembered, "KEPT_SECONDS", 60.0)  # however slow the machine is
        forget()
        partner.post({})
        with CaptureQueriesContext(connection) as queries:
            partner.post({})
        texts = [q["sql"] for q in queries if "SAVEPOINT" not in q["sql"]]
        assert len(texts) == 1, "the message and its receipt, in one statement"


class TestAddressesAndMethods:
    def test_what_is_nowhere_and_what_is_another_method(self, partner: Partner) -> None:
        asker = client()
        for path in ("/esqueue/", "/es/a", "/esqueue/a/b/", "/meaweb/x", "/api/x", "/es/a\x00/b"):
            problem(asker.post(path), 404, "NO_SUCH_ADDRESS")
        for method in ("get", "put", "delete", "patch", "options", "head"):
            answer = getattr(asker, method)(partner.address())
            assert answer.status_code == 405
            assert answer["Allow"] == "POST"
        answer = asker.post(f"{partner.address('messages')}/x")
        assert problem(answer, 405, "WRONG_METHOD")
        assert answer["Allow"] == "GET, HEAD"

    def test_pages_of_people_are_not_touched(self) -> None:
        assert client().get("/queues/").status_code == 302
        assert client().get("/espresso/").status_code == 404

    def test_neither_sessions_nor_cookies_nor_forms_tokens_play_a_part(
        self, partner: Partner
    ) -> None:
        asker = client()
        asker.handler.enforce_csrf_checks = True
        asker.cookies["sessionid"] = "x\x00y"
        answer = asker.post(
            partner.address(), data=b"{}", content_type="application/json", headers=partner.bearer
        )
        assert answer.status_code == 202
        assert not answer.cookies

    def test_an_answer_tells_its_length(self, partner: Partner) -> None:
        answer = partner.post({})
        assert int(answer["Content-Length"]) == len(answer.content)
        asked = f"/esqueue/{partner.system.name}/messages/{answer.json()['message_id']}"
        head = client().head(asked, headers=partner.bearer)
        assert (head.status_code, head.content) == (200, b"")
        assert int(head["Content-Length"]) > 100

    def test_any_host_name_will_do(self, partner: Partner) -> None:
        assert partner.post({}, headers={"Host": "strange.example"}).status_code == 202


class _Stream:
    """A body of which must be read no more than is needed."""

    def __init__(self, size: int) -> None:
        self.left, self.read_bytes = size, 0

    def read(self, wanted: int) -> bytes:
        given = min(wanted, self.left)
        self.left -= given
        self.read_bytes += given
        return b"x" * given


class TestReadingTheBody:
    def read(self, stream: _Stream, most: int, **meta: str) -> bytes:
        request = client().get("/").wsgi_request
        request.META = {**meta, "wsgi.input": stream}
        return reading.body_of(request, most)

    def test_an_announced_giant_is_not_read_at_all(self) -> None:
        stream = _Stream(2**31)
        with pytest.raises(reading.BodyTooLargeError):
            self.read(stream, 1_000, CONTENT_LENGTH=str(2**31))
        assert stream.read_bytes == 0

    def test_a_chunked_giant_is_read_to_the_limit(self) -> None:
        stream = _Stream(2**31)
        with pytest.raises(reading.BodyTooLargeError):
            self.read(stream, 1_000, HTTP_TRANSFER_ENCODING="chunked")
        assert stream.read_bytes == 1_001
        assert len(self.read(_Stream(1_000), 1_000, HTTP_TRANSFER_ENCODING="chunked")) == 1_000

    def test_what_ends_early_is_not_taken_for_whole(self) -> None:
        with pytest.raises(reading.CutShortError):
            self.read(_Stream(5), 1_000, CONTENT_LENGTH="6")

    def test_a_length_that_is_none_is_refused(self) -> None:
        for length in ("-1", "1e3", "9" * 30):
            with pytest.raises(reading.BadHeaderError):
                self.read(_Stream(5), 1_000, CONTENT_LENGTH=length)
