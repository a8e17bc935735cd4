"""A provider's settings in the words of Kafka's Java client, which Spark's connector is.

They reach Spark as options of one reading, inside this process: never by a command line. What is
secret among them `session.REDACTED` knows, so that Spark's pages and logs leave it out.
"""

from collections.abc import Mapping
from typing import Final

from cryptography.hazmat.primitives import serialization

from spark_jobs.topics.cluster import unusable

# Settings that both clients call by one name, and mean the same by it.
_SAME: Final = (
    "bootstrap.servers",
    "security.protocol",
    "sasl.mechanism",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.token.endpoint.url",
    "client.id",
    "client.rack",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "request.timeout.ms",
    "socket.connection.setup.timeout.ms",
)
_RENAMED: Final[Mapping[str, str]] = {
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
}
_SECURITY: Final = "org.apache.kafka.common.security"
# Module -> what it is told -> the setting that it is told of.
_USER: Final = {"username": "sasl.username", "password": "sasl.password"}
_CLIENT: Final = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_LOGINS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "PLAIN": (f"{_SECURITY}.plain.PlainLoginModule", _USER),
    "SCRAM-SHA-256": (f"{_SECURITY}.scram.ScramLoginModule", _USER),
    "SCRAM-SHA-512": (f"{_SECURITY}.scram.ScramLoginModule", _USER),
    "OAUTHBEARER": (f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule", _CLIENT),
    # The ticket is that of whoever runs the driver, as it is for the plain client.
    "GSSAPI": ("com.sun.security.auth.module.Krb5LoginModule", {}),
}
# How the tokens of OAUTHBEARER are fetched from their issuer.
_TOKENS: Final = f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"


def java_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The same provider for the Java client. Settings that it has no counterpart of are left out.

    Raises JobError KAFKA_UNUSABLE for a key that cannot be read, and without a way to log in.
    """
    translated = {name: settings[name] for name in _SAME if settings.get(name)}
    translated |= {java: settings[name] for name, java in _RENAMED.items() if settings.get(name)}
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol.startswith("SASL"):
        translated |= _login(settings)
    if protocol.endswith("SSL"):
        translated |= _certificates(settings)
    return translated


def _login(settings: Mapping[str, str]) -> dict[str, str]:
    mechanism = settings.get("sasl.mechanism", "")
    if mechanism not in _LOGINS:
        raise unusable(f"{mechanism or 'no mechanism'} is no way to log in", {})
    module, told = _LOGINS[mechanism]
    words = [f"{word}={_quoted(settings[name])}" for word, name in told.items() if name in settings]
    if mechanism == "GSSAPI":
        words = ["useTicketCache=true", "doNotPrompt=true"]
    login = {"sasl.jaas.config": f"{' '.join([module, 'required', *words])};"}
    return login | ({"sasl.login.callback.handler.class": _TOKENS} if told is _CLIENT else {})


def _quoted(text: str) -> str:
    """Quote a text as the configuration of Java's logins reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _certificates(settings: Mapping[str, str]) -> dict[str, str]:
    stores = {}
    if settings.get("ssl.ca.pem"):
        stores["ssl.truststore.type"] = "PEM"
    if settings.get("ssl.key.pem"):
        stores |= {"ssl.keystore.type": "PEM", "ssl.keystore.key": _pkcs8(settings["ssl.key.pem"])}
    algorithm = settings.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        # "none" is librdkafka's word; Java's is an empty one.
        stores["ssl.endpoint.identification.algorithm"] = (
            "" if algorithm.lower() == "none" else algorithm
        )
    return stores


def _pkcs8(pem: str) -> str:
    """The key in the one form that Java reads; OpenSSL also writes older ones."""
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError) as e:
        raise unusable("its key cannot be read", {}) from e
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
