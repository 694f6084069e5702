"""Writes the documents that are made from the code: ``python -m release.documents``.

A test compares each with its file. Not shipped: a wheel needs none of it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from release.documents import commands, configs, fairness, image, metrics, openapi, packages, support

DOCS: Final = Path(__file__).resolve().parent.parent.parent / "docs"
PAGES: Final[Mapping[Path, Callable[[], str]]] = {
    DOCS / "cli.md": commands.document,
    DOCS / "configs.md": configs.document,
    DOCS / "fairness.md": fairness.document,
    DOCS / "image.md": image.document,
    DOCS / "metrics.md": metrics.document,
    DOCS / "packages.md": packages.document,
    DOCS / "support.md": support.document,
    openapi.FILE: openapi.text,
}


def main() -> None:
    """Write all of them."""
    for path, document in PAGES.items():
        path.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
