"""Prepares the pages of the site: ``python release/site.py build/site-pages``.

The pages are docs/, README.md and the documents beside it. Links between them lead to the pages of the site. A link to
anything else of the project, such as a source file, becomes its text: the site does not have that file.
"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BESIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "examples/payments/README.md": "payments.md",
}
"""Documents outside docs/, with the names of their pages."""
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
SOURCE = re.compile(r'\b(src|srcset)="docs/')
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def pages() -> dict[Path, str]:
    """The files of the site, with their paths in it."""
    docs = ROOT / "docs"
    found = {path: str(path.relative_to(docs)) for path in sorted(docs.rglob("*")) if path.is_file()}
    return {**found, **{ROOT / name: page for name, page in BESIDE.items()}}


def page_text(path: Path, known: dict[Path, str]) -> str:
    """A document as a page: its links lead to pages, or are plain text."""

    def link(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return match[0]
        name, mark, anchor = target.partition("#")
        page = known.get((path.parent / name).resolve())
        return text if page is None else f"[{text}]({page}{mark}{anchor})"

    parts = FENCE.split(SOURCE.sub(r'\1="', path.read_text(encoding="utf-8")))
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def prepare(target: Path) -> None:
    """Write the pages into a directory, which is made again."""
    shutil.rmtree(target, ignore_errors=True)
    known = pages()
    for path, name in known.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            (target / name).write_text(page_text(path, known), encoding="utf-8")
        else:
            shutil.copyfile(path, target / name)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python release/site.py DIRECTORY")
    prepare(Path(sys.argv[1]))
