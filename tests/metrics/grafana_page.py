"""A page that draws dashboards with Grafana's own panel components, served on loopback. It does not draw by itself.

Its source is ``tests/metrics/grafana``. `make grafana` fetches the components, of Grafana's packages on npm, into
``build/``; they are not installed and not shipped.
"""

import functools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.browser import Browser

SOURCE = Path(__file__).parent / "grafana"
ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "grafana"
PACKAGES = BUILT / "node_modules"
WIDTH = 1440
"""The panels have the size that they have in a window of this width."""
THEMES = ("light", "dark")
FIGURES = ROOT / "docs" / "figures" / "dashboards"
SHOWN = Path(__file__).parent / "shown.json"
"""The titles of each dashboard's panels with the number of lines or values that the pictures show."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Requests of the page are not logged."""


def bundle() -> Path:
    """The folder of the page, put together; the test is skipped where its packages are not there."""
    program = PACKAGES / ".bin" / "esbuild"
    if shutil.which("node") is None or not program.exists():
        pytest.skip("Grafana's components are not there: make grafana fetches them with npm")
    site = BUILT / "site"
    icons = site / "public" / "build" / "img"
    icons.parent.mkdir(parents=True, exist_ok=True)
    if not icons.is_symlink():
        icons.symlink_to(PACKAGES / "@grafana" / "ui" / "dist" / "public" / "img")
    shutil.copy(SOURCE / "index.html", site)
    options = (
        "--bundle",
        "--jsx=automatic",
        "--loader:.ttf=empty",
        '--define:process.env.NODE_ENV="production"',
        "--log-level=error",
    )
    subprocess.run(
        [program, SOURCE / "page.jsx", *options, f"--outfile={site / 'page.js'}"],
        env={**os.environ, "NODE_PATH": str(PACKAGES)},
        check=True,
        timeout=120,
    )
    return site


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address of the page."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def draw(browser: Browser, address: str, request: Mapping[str, Any]) -> dict[int, list[str]]:
    """Show a dashboard: the names and values that each panel shows, by the panel's id. ``page.jsx`` has the request."""
    browser.open(address, theme=request["theme"], width=WIDTH)
    shown = browser.run(f"show({json.dumps(request)})")
    browser.resize(WIDTH, browser.run("document.querySelector('main').scrollHeight"))
    return {each["id"]: each["shown"] for each in shown}
