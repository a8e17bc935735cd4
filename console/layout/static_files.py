"""The console's static files: named by their content, compressed, kept by browsers for good."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from django.template import engines
from whitenoise.storage import CompressedManifestStaticFilesStorage

# {% static "console/console.css" %}
NAMED: Final = re.compile(r"""\{%\s*static\s+["']([^"']+)["']""")


class MissingStaticFileError(ValueError):
    """A template names a static file that is not there."""


class HashedFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc] # it has no types
    """A file that a template or a style sheet names and nobody has ends `collectstatic`.

    So it ends the build; a page never fails by it. What was not collected goes by its plain name.
    """

    def post_process(self, *args: Any, **options: Any) -> Iterator[Any]:
        """Yield what Django yields, and at the end the missing files that templates name."""
        yield from super().post_process(*args, **options)
        if not options.get("dry_run"):
            yield from self._named_in_vain()

    def stored_name(self, name: str) -> str:
        try:
            return str(super().stored_name(name))
        except ValueError:
            return name

    def _named_in_vain(self) -> Iterator[tuple[str, None, MissingStaticFileError]]:
        for template, name in _named_in_templates():
            if self.hash_key(name) not in self.hashed_files:
                why = f"{template} names the static file {name}, which no app has."
                yield name, None, MissingStaticFileError(why)


def _named_in_templates() -> Iterator[tuple[Path, str]]:
    for folder in [one for engine in engines.all() for one in engine.template_dirs]:
        for template in sorted(Path(folder).rglob("*.html")):
            for name in NAMED.findall(template.read_text(encoding="utf-8", errors="replace")):
                yield template, name
