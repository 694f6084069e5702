"""Writes the software bill of materials: ``python release/sbom.py dist/*.whl > dist/kpybroker.cdx.json``.

CycloneDX 1.6 as JSON. It lists the wheels with their checksums, and everything that a plain installation brings, by the
metadata of the environment that runs this program: names, versions, licences and who needs whom. It has no time and no
random number, so that two runs are equal; the serial number is derived from the content.
"""

import hashlib
import json
import re
import sys
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = "kpybroker"


def canonical(name: str) -> str:
    """A project's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed_by(distribution: metadata.Distribution) -> list[str]:
    """The projects that a distribution needs here, without its extras."""
    found = []
    for requirement in distribution.requires or ():
        name, _, marker = requirement.partition(";")
        if "extra" in marker:
            continue
        found.append(canonical(re.split(r"[<>=!~\[( ]", name.strip())[0]))
    return sorted(set(found))


def installed(root: str) -> dict[str, metadata.Distribution]:
    """A project and all that it needs, as far as it is installed here."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # of another platform
        waiting += needed_by(found[name])
    return found


def reference(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def component(name: str, distribution: metadata.Distribution) -> dict[str, Any]:
    """A library, with its licence as its metadata state it."""
    about = distribution.metadata
    made: dict[str, Any] = {
        "type": "application" if name == ROOT else "library",
        "bom-ref": reference(name, distribution.version),
        "name": name,
        "version": distribution.version,
        "purl": reference(name, distribution.version),
    }
    expression, named = about.get("License-Expression"), about.get("License")
    if expression:
        made["licenses"] = [{"expression": expression}]
    elif named and "\n" not in named:
        made["licenses"] = [{"license": {"name": named}}]
    return made


def document(wheels: list[Path]) -> dict[str, Any]:
    """The bill of materials of the installed kpybroker, with the checksums of these files."""
    found = installed(ROOT)
    parts = {name: component(name, each) for name, each in sorted(found.items())}
    root = parts.pop(ROOT)
    root["components"] = [
        {
            "type": "file",
            "name": wheel.name,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
        }
        for wheel in sorted(wheels)
    ]
    relations = [
        {
            "ref": reference(name, each.version),
            "dependsOn": [reference(need, found[need].version) for need in needed_by(each) if need in found],
        }
        for name, each in sorted(found.items())
    ]
    made: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": list(parts.values()),
        "dependencies": relations,
    }
    content = json.dumps(made, sort_keys=True)
    made["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, content).urn
    return made


if __name__ == "__main__":
    print(json.dumps(document([Path(name) for name in sys.argv[1:]]), indent=2))
