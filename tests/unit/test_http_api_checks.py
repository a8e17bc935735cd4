"""What `check --deploy` says about tokens and TLS."""

import pytest

from console.http_api.checks import tokens_need_tls

pytestmark = pytest.mark.fast


def test_tokens_without_tls_are_warned_about(settings) -> None:
    settings.SECURE_SSL_REDIRECT = False
    [warning] = tokens_need_tls()
    assert "esqueue/" in warning.msg
    assert "SLUICE_HTTPS" in warning.hint
    settings.SLUICE_IS_GUEST = True
    [warning] = tokens_need_tls()
    assert "SECURE_SSL_REDIRECT" in warning.hint
    settings.SECURE_SSL_REDIRECT = True
    assert tokens_need_tls() == []
