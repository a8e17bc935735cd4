"""The form of log lines: JSON that tells of which message it is, and in which no token stands."""

from logging import LogRecord
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from integration import log_fields
from integration.http_api.tokens import without_tokens


class LogLines(JsonFormatter):
    """Every line passes here last: arguments, extra fields and tracebacks are in it by then."""

    def format(self, record: LogRecord) -> str:
        return without_tokens(super().format(record))

    def add_fields(
        self, log_data: dict[str, Any], record: LogRecord, message_dict: dict[str, Any]
    ) -> None:
        """What whoever logs says of the line itself counts before what is known of the run."""
        super().add_fields(log_data, record, message_dict)
        for name, value in log_fields.current().items():
            log_data.setdefault(name, value)
