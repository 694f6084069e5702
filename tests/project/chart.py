"""Renders the Helm chart by helm: the one on the path, or the one that ``make helm`` has built.

Without it the tests that render are skipped, and say so.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from sources import ROOT

CHART = ROOT / "release" / "helm" / "kpybroker"
BUILT = ROOT / "build" / "helm" / "helm"
RELEASE, NAMESPACE = "kafka", "streams"
Manifests = list[dict[str, Any]]


class Refused(Exception):
    """The chart does not take these values; the text is its reason."""


def values_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def merged(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Values with others over them, as helm merges them: maps key by key."""
    both = {
        name: merged(values[name], over[name]) for name in values.keys() & over.keys() if isinstance(over[name], dict)
    }
    return {**values, **over, **both}


def defaults() -> dict[str, Any]:
    return values_of(CHART / "values.yaml")


def helm() -> Path:
    """The program. Skips the test where there is none."""
    on_path = shutil.which("helm")
    if on_path is None and not BUILT.exists():
        pytest.skip("helm is neither installed nor built (make helm needs Go): the chart is not rendered")
    return Path(on_path) if on_path else BUILT


def ask_helm(*words: str | Path) -> str:
    """The output of helm. Refused where it fails."""
    command = [str(helm()), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr + done.stdout)
    return done.stdout


def by_helm(*words: str | Path) -> Manifests:
    """The manifests that ``helm template`` makes with these options."""
    text = ask_helm("template", RELEASE, CHART, "--namespace", NAMESPACE, *words)
    return [each for each in yaml.safe_load_all(text) if each]


def rendered(over: Mapping[str, Any] | None = None) -> Manifests:
    """The manifests with these values over the defaults. Refused where the chart fails."""
    with TemporaryDirectory() as directory:
        values = Path(directory) / "values.yaml"
        values.write_text(yaml.safe_dump(dict(over or {})))
        return by_helm("--values", values)
