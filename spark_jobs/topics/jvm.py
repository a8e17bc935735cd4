"""A provider's settings in the words of Kafka's Java client, which Spark's connector is.

They reach Spark as options of one reading, inside this process: never by a command line. What is
secret among them `session.REDACTED` knows, so that Spark's pages and logs leave it out.
"""

from collections.abc import Mapping
from typing import Final

from cryptography.hazmat.primitives import serialization

from spark_jobs.problems import JobError
from spark_jobs.topics.cluster import unusable

# Settings that both clients call by one name, and mean the same by it.
_SAME: Final = (
    "bootstrap.servers",
    "security.protocol",
    "sasl.mechanism",
    "sasl.kerberos.service.name",
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
_LOGINS: Final[Mapping[str, str]] = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def java_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The same provider for the Java client. Settings that it has no counterpart of are left out.

    Raises JobError LOGIN_NOT_CARRIED for a way to log in that cannot be told to it, and
    KAFKA_UNUSABLE for a key that cannot be read.
    """
    translated = {name: settings[name] for name in _SAME if settings.get(name)}
    translated |= {java: settings[name] for name, java in _RENAMED.items() if settings.get(name)}
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol.startswith("SASL"):
        translated["sasl.jaas.config"] = _login(settings)
    if protocol.endswith("SSL"):
        translated |= _certificates(settings)
    return translated


def _login(settings: Mapping[str, str]) -> str:
    mechanism = settings.get("sasl.mechanism", "")
    if mechanism not in _LOGINS:
        raise JobError(
            "LOGIN_NOT_CARRIED",
            f"Bulk jobs on Spark cannot log in to Kafka by {mechanism or 'no mechanism at all'}.",
            f"Give the job a provider that logs in by {', '.join(sorted(_LOGINS))}.",
        )
    name, password = (_quoted(settings.get(one, "")) for one in ("sasl.username", "sasl.password"))
    return f"{_LOGINS[mechanism]} required username={name} password={password};"


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
