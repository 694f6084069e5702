"""Writes the documents that are made from the code: ``python -m release.documents``.

A test compares each with its file. Not shipped: a wheel needs none of it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from release.documents import commands, configs, fairness, image, metrics, packages, support

DOCS: Final = Path(__file__).resolve().parent.parent.parent / "docs"
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "cli.md": commands.document,
    "configs.md": configs.document,
    "fairness.md": fairness.document,
    "image.md": image.document,
    "metrics.md": metrics.document,
    "packages.md": packages.document,
    "support.md": support.document,
}


def main() -> None:
    """Write all pages."""
    for name, document in PAGES.items():
        (DOCS / name).write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
