"""The site: every document is a page that the navigation names, links lead somewhere, and no other host is asked."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from sources import ROOT

from release import site

HOST = re.compile(r'<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href|srcset)="((?:https?:)?//[^"]*)"')


def named(node: Any) -> list[str]:
    """The pages of a part of the navigation."""
    if isinstance(node, str):
        return [node]
    parts = node.values() if isinstance(node, dict) else node
    return [page for part in parts for page in named(part)]


def test_the_navigation_names_every_page_once() -> None:
    pages = {name for path, name in site.pages().items() if path.suffix == ".md"}
    navigation = named(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert len(navigation) == len(set(navigation))
    assert set(navigation) == pages


def test_links_lead_to_pages_or_are_text() -> None:
    known = site.pages()
    readme = site.page_text(ROOT / "README.md", known)
    assert "](clusters.md)" in readme
    assert "](docs/" not in readme
    assert 'srcset="figures/' in readme
    assert "](../" not in site.page_text(ROOT / "docs" / "metrics.md", known)


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_asks_no_other_host(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed")
    pages, target = tmp_path / "pages", tmp_path / "site"
    site.prepare(pages)
    settings = (ROOT / "mkdocs.yml").read_text().replace("build/site-pages", str(pages))
    (tmp_path / "mkdocs.yml").write_text(settings)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    built = sorted(target.rglob("*.html"))
    assert len(built) > 30
    assert not {host for path in built for host in HOST.findall(path.read_text(errors="replace"))}
