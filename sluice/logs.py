"""The form of log lines: JSON, in which no token stands, whoever wrote it there."""

from logging import LogRecord

from pythonjsonlogger.json import JsonFormatter

from integration.http_api.tokens import without_tokens


class LogLines(JsonFormatter):
    """Every line passes here last: arguments, extra fields and tracebacks are in it by then."""

    def format(self, record: LogRecord) -> str:
        return without_tokens(super().format(record))
