"""The rules for paths of an external id and of search ids."""

from django.core.exceptions import ValidationError

from integration.paths import BadPath, compile_path

MAX_SEARCH_PATHS = 2


def check_search_paths(external_id_path: str, search_paths: object) -> None:
    """Raises ValidationError, by field, for paths that tracking could not follow."""
    if not isinstance(search_paths, list) or len(search_paths) > MAX_SEARCH_PATHS:
        text = f"Name at most {MAX_SEARCH_PATHS} paths, as a JSON list."
        raise ValidationError({"search_paths": text})
    paths_of = {"external_id_path": [external_id_path or None], "search_paths": search_paths}
    for field, paths in paths_of.items():
        for path in filter(None, paths):
            if not isinstance(path, str):
                raise ValidationError({field: f"{path!r:.80} is not a path."})
            try:
                compile_path(path)
            except BadPath as e:
                raise ValidationError({field: str(e)}) from e
