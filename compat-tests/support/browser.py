"""Headless Chromium, driven through two pipes by its own protocol (``--remote-debugging-pipe``)."""

import base64
import json
import os
import select
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

AXE_VERSION = "4.14.1"
TOOLS = Path(__file__).parents[2] / "build" / "console"
AXE = TOOLS / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE_S = 60
NAMED = "console.example"
"""A name for this machine that is not known as loopback."""
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    f"--host-resolver-rules=MAP {NAMED} 127.0.0.1",
    "--remote-debugging-pipe",
)


def chromium() -> str:
    """The browser; the test is skipped where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    return found


def axe() -> str:
    """The source of axe-core; the test is skipped where it cannot be had."""
    if not AXE.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("axe-core is not there, and npm is not installed to fetch it")
        command = [npm, "install", "--silent", "--no-audit", "--prefix", str(TOOLS), f"axe-core@{AXE_VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode or not AXE.exists():
            pytest.skip(f"npm cannot fetch axe-core: {done.stderr.strip()[:200]}")
    return AXE.read_text(encoding="utf-8")


class Browser:
    """One page in one browser. Use as a context manager."""

    def __init__(self, profile: Path) -> None:
        to_read, self._to_browser = os.pipe()
        self._from_browser, to_write = os.pipe()

        def place() -> None:
            os.dup2(to_read, 3)
            os.dup2(to_write, 4)

        # Descriptors 3 and 4 are what the browser reads and writes; they are above both by now.
        command = [chromium(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            command, preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self._number = 0
        self._read = b""
        self.events: list[dict[str, Any]] = []
        targets = self.call("Target.getTargets", session=None)["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        attached = self.call("Target.attachToTarget", session=None, targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._to_browser)
        os.close(self._from_browser)

    def call(self, method: str, *, session: str | None = "page", **parameters: Any) -> Any:
        """The result of a command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = self._session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            assert select.select([self._from_browser], [], [], PATIENCE_S)[0], "the browser says nothing more"
            piece = os.read(self._from_browser, 1 << 20)
            assert piece, "the browser has ended"
            self._read += piece
        text, _, self._read = self._read.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def open(self, address: str, *, theme: str, width: int = 1280, height: int = 900) -> None:
        """Load a page."""
        self.events.clear()
        self.use_theme(theme)
        self.resize(width, height)
        loader = self.call("Page.navigate", url=address)["loaderId"]
        while not any(_is_loaded(each, loader) for each in self.events):
            self.events.append(self._next())

    def follow(self, script: str) -> tuple[int, str]:
        """Run a script that leads to another page. Return the status and the address of that page."""

        def act() -> None:
            assert self.run(script), script

        return self._followed(act)

    def follow_click(self, element: str) -> tuple[int, str]:
        """Click on an element that leads to another page. Return the status and the address of that page."""
        return self._followed(lambda: self.click(element))

    def click(self, element: str) -> None:
        """Click with the mouse on an element, which a script finds. It has to be in sight, with nothing above it."""
        place = f"""((element) => {{
          element.scrollIntoView({{block: "center"}});
          const box = element.getBoundingClientRect();
          const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
          const above = document.elementFromPoint(x, y);
          return element === above || element.contains(above) ? [x, y] : null;
        }})({element})"""
        found = self.run(place)
        assert found is not None, f"{element} cannot be clicked"
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=found[0], y=found[1], button="left", clickCount=1)

    def fill(self, element: str, text: str) -> None:
        """Type a text into a field, in place of what it has. In a list, typing a text chooses its entry."""
        if self.run(f"{element}.tagName") == "SELECT":
            self.run(f"{element}.focus()")
            for letter in text:
                self.call("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
                self.call("Input.dispatchKeyEvent", type="keyUp", key=letter)
        else:
            self.click(element)
            self.run(f"{element}.select()")
            self.call("Input.insertText", text=text)

    def _followed(self, act: Callable[[], object]) -> tuple[int, str]:
        self.events.clear()
        act()
        while True:
            for each in self.events:
                found = each.get("params", {})
                is_answer = each.get("method") == "Network.responseReceived" and found["type"] == "Document"
                if is_answer and any(_is_loaded(other, found["loaderId"]) for other in self.events):
                    return found["response"]["status"], found["response"]["url"]
            self.events.append(self._next())

    def use_theme(self, theme: str) -> None:
        """Prefer ``light`` or ``dark``."""
        media = [
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", features=media)

    def resize(self, width: int, height: int) -> None:
        """Show the page in a window of this size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def run(self, script: str) -> Any:
        """The value of a script."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def picture(self) -> bytes:
        """A picture of the page, as PNG."""
        found = self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(found["data"])

    @property
    def requested(self) -> list[str]:
        """The addresses that the page has asked for."""
        sent = [each for each in self.events if each.get("method") == "Network.requestWillBeSent"]
        return [each["params"]["request"]["url"] for each in sent]

    @property
    def complaints(self) -> list[str]:
        """The lines that the browser has logged about the page."""
        entries = [each["params"]["entry"] for each in self.events if each.get("method") == "Log.entryAdded"]
        thrown = [str(each["params"]) for each in self.events if each.get("method") == "Runtime.exceptionThrown"]
        return [entry["text"] for entry in entries] + thrown


def _is_loaded(event: dict[str, Any], loader: str) -> bool:
    """Whether an event says that this page, and not the one before it, is loaded."""
    found = event.get("params", {})
    is_load = event.get("method") == "Page.lifecycleEvent" and found["name"] == "load"
    return is_load and bool(found["loaderId"] == loader)
