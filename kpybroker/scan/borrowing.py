"""Leases from the reader's side: segments are borrowed from the second ports of brokers, renewed, and given back.

Not here: reading the files (`kpybroker.scan.files`), and the broker's side (`kpybroker.leases`).
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from kpybroker.leases.manifest import Manifest, PartitionManifest, from_json
from kpybroker.scan.errors import ScanError

TIMEOUT_S: Final = 30.0
MOST_ANSWER_BYTES: Final = 256 * 1024 * 1024


class SecondPort(NamedTuple):
    """The second port of a broker, and the user that logs in there, if it demands that."""

    url: str
    """For example ``http://127.0.0.1:9404``."""
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"SecondPort({self.url!r}, {self.user!r})"

    def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """The answer to a request. Raises ScanError with the broker's own line."""
        headers = {"Content-Type": "application/json"}
        if self.user:
            headers["Authorization"] = "Basic " + b64encode(f"{self.user}:{self.password}".encode()).decode()
        asked = Request(f"{self.url}{path}", json.dumps(body).encode(), headers)
        try:
            with urlopen(asked, timeout=TIMEOUT_S) as answer:
                text: bytes = answer.read(MOST_ANSWER_BYTES + 1)
        except HTTPError as error:
            with suppress(OSError):
                line = error.read(1_000).decode("utf-8", "replace").strip()
                raise ScanError(f"{self.url} refuses: {line or error.reason}") from None
            raise ScanError(f"{self.url} refuses: {error.reason}") from None
        except (URLError, OSError, ValueError) as error:
            raise ScanError(f"{self.url} does not answer: {getattr(error, 'reason', error)}") from None
        if len(text) > MOST_ANSWER_BYTES:
            raise ScanError(f"{self.url} answers with more than {MOST_ANSWER_BYTES} bytes")
        return text


class Borrowed:
    """The partitions that are lent, by one or several brokers."""

    def __init__(self, lent: Sequence[tuple[SecondPort, Manifest]]) -> None:
        self._lent = list(lent)
        self.manifests: dict[tuple[str, int], PartitionManifest] = {
            (part.topic, part.partition): part for _, manifest in lent for part in manifest.partitions
        }
        self.expires_in_ms = min((manifest.expires_in_ms for _, manifest in lent), default=0)
        """The time until the first of the leases ends, from its begin or its last renewal."""

    @property
    def refused(self) -> dict[tuple[str, int], str]:
        """The partitions that no broker lends, and why."""
        reasons = {(topic, index): why for _, manifest in self._lent for topic, index, why in manifest.refused}
        return {place: why for place, why in reasons.items() if place not in self.manifests}

    def renew(self) -> None:
        """Let all leases last longer. Raises ScanError if one is over."""
        for port, manifest in self._lent:
            port.post("/leases/renew", {"lease": manifest.lease})

    def end(self) -> None:
        """Give everything back. A broker that does not answer takes it back by itself when the time is over."""
        lent, self._lent = self._lent, []
        for port, manifest in lent:
            with suppress(ScanError):
                port.post("/leases/end", {"lease": manifest.lease})


def borrow(ports: Iterable[SecondPort], partitions: Sequence[tuple[str, int]], duration_ms: int) -> Borrowed:
    """Borrow partitions: each from the first of the brokers that lends it. Raises ScanError if one does not answer."""
    lent: list[tuple[SecondPort, Manifest]] = []
    wanted = list(dict.fromkeys(partitions))
    try:
        for port in ports:
            if not wanted:
                break
            answer = port.post("/leases", {"partitions": wanted, "duration_ms": duration_ms})
            try:
                manifest = from_json(answer)
            except ValueError as error:
                raise ScanError(f"{port.url}: {error}; is it the second port of a kpybroker?") from None
            lent.append((port, manifest))
            found = {(part.topic, part.partition) for part in manifest.partitions}
            wanted = [place for place in wanted if place not in found]
    except ScanError:
        Borrowed(lent).end()
        raise
    return Borrowed(lent)
