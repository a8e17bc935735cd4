"""The manifests for Kubernetes, parsed: as they are written, and as kustomize makes them."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.deployed import ROOT

FOLDER: Final = ROOT / "deploy" / "kubernetes"
OVERLAYS: Final = sorted(path.parent.name for path in FOLDER.glob("overlays/*/kustomization.yaml"))
WRITTEN: Final = "as written"
Document = Mapping[str, Any]


def _renderer() -> Sequence[str]:
    for program, *words in (("kustomize", "build"), ("kubectl", "kustomize")):
        if shutil.which(program):
            return program, *words
    return ()


RENDERER: Final = _renderer()
# What is looked at: the files, and each overlay where there is a program that makes it.
LOOKS: Final = (WRITTEN, *(OVERLAYS if RENDERER else ()))


def kustomizations() -> dict[str, Document]:
    """Each kustomization, by its folder."""
    return {
        str(path.parent.relative_to(FOLDER)): yaml.safe_load(path.read_text())
        for path in sorted(FOLDER.rglob("kustomization.yaml"))
    }


@cache
def documents(look: str) -> Sequence[Document]:
    if look != WRITTEN:
        made = subprocess.run(
            [*RENDERER, str(FOLDER / "overlays" / look)], check=True, capture_output=True, text=True
        )
        return list(yaml.safe_load_all(made.stdout))
    files = {
        folder / name
        for folder, names in _resources()
        for name in names
        if (folder / name).suffix == ".yaml"
    }
    return [one for file in sorted(files) for one in yaml.safe_load_all(file.read_text())]


def _resources() -> Iterator[tuple[Path, Sequence[str]]]:
    for name, kustomization in kustomizations().items():
        yield FOLDER / name, kustomization.get("resources", ())


def pods(look: str) -> dict[str, Document]:
    """The specification of each kind of pod, by the name of what makes it."""
    return {
        one["metadata"]["name"].removeprefix("sluice-"): one["spec"]["template"]["spec"]
        for one in documents(look)
        if one["kind"] in {"Deployment", "Job"}
    }


def containers(look: str) -> dict[str, Document]:
    """Every container, by its pod and name."""
    return {
        f"{pod}/{container['name']}": container
        for pod, spec in pods(look).items()
        for container in (*spec.get("initContainers", ()), *spec["containers"])
    }


def of_kind(look: str, kind: str) -> dict[str, Document]:
    """Documents of a kind, by name."""
    return {one["metadata"]["name"]: one for one in documents(look) if one["kind"] == kind}
