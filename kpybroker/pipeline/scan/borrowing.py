"""Leases from the reader's side: segments are borrowed from the second ports of brokers, renewed, and given back.

Not here: reading the files (`kpybroker.pipeline.scan.files`), and the broker's side (`kpybroker.hosts.leases`).
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kpybroker.machines.lease_manifest import LeaseRequest, Manifest, PartitionManifest, from_json
from kpybroker.machines.scan.errors import NotLentYet, ScanError
from kpybroker.machines.scan.ranges import OffsetRange, Spot

TIMEOUT_S: Final = 30.0
UNAVAILABLE: Final = 503
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
        """The answer to a request. Raises ScanError with the broker's own line; NotLentYet if it is away or starts.
        Neither a redirect nor a proxy of the environment is followed: the login is for this port."""
        from urllib.error import HTTPError, URLError  # loads HTTP and TLS, which few processes of Spark need
        from urllib.request import ProxyHandler, Request, build_opener

        from kpybroker.client.schemas.registry import NoRedirects

        headers = {"Content-Type": "application/json"}
        if self.user:
            headers["Authorization"] = "Basic " + b64encode(f"{self.user}:{self.password}".encode()).decode()
        asked = Request(f"{self.url}{path}", json.dumps(body).encode(), headers)
        try:
            with build_opener(ProxyHandler({}), NoRedirects).open(asked, timeout=TIMEOUT_S) as answer:
                text: bytes = answer.read(MOST_ANSWER_BYTES + 1)
        except HTTPError as error:
            line = ""
            with suppress(OSError):
                line = error.read(1_000).decode("utf-8", "replace").strip()
            refusal = NotLentYet if error.code == UNAVAILABLE else ScanError
            raise refusal(f"{self.url} refuses: {line or error.reason}") from None
        except (URLError, OSError, ValueError) as error:
            raise NotLentYet(f"{self.url} does not answer: {getattr(error, 'reason', error)}") from None
        if len(text) > MOST_ANSWER_BYTES:
            raise ScanError(f"{self.url} answers with more than {MOST_ANSWER_BYTES} bytes")
        return text


class Loan(NamedTuple):
    """A lease of a broker."""

    port: SecondPort
    lease: str

    def renew(self) -> None:
        """Let it last longer. Raises ScanError if it is over."""
        self.port.post("/leases/renew", {"lease": self.lease})

    def end(self) -> None:
        """Give it back. A broker that does not answer takes it back by itself when its time is over."""
        with suppress(ScanError):
            self.port.post("/leases/end", {"lease": self.lease})


class Borrowed(NamedTuple):
    """The partitions that are lent, by one or several brokers. It can be pickled, whole or in part."""

    manifests: Mapping[Spot, PartitionManifest]
    loans: tuple[Loan, ...]
    refused: Mapping[Spot, str]
    """The partitions that no broker lends, and why."""
    expires_in_ms: int
    """The time until the first of the leases ends, from its begin or its last renewal."""

    def only(self, parts: Iterable[OffsetRange]) -> "Borrowed":
        """The part of it that a task with these ranges needs."""
        manifests = {part.spot: self.manifests[part.spot] for part in parts if part.spot in self.manifests}
        for part in parts:
            if part.spot in manifests:
                manifest = manifests[part.spot]
                needed = [each for each in manifest.segments if part.overlaps(each.base_offset, each.next_offset)]
                manifests[part.spot] = manifest._replace(segments=needed)
        return self._replace(manifests=manifests, refused={})

    def renew(self) -> None:
        """Let all leases last longer. Raises ScanError if one is over."""
        for loan in self.loans:
            loan.renew()

    def end(self) -> None:
        """Give everything back."""
        for loan in self.loans:
            loan.end()


def borrow(
    ports: Iterable[SecondPort], wanted: Sequence[LeaseRequest], duration_ms: int, cluster_id: str = ""
) -> Borrowed:
    """Borrow partitions: each from the first of the brokers that lends it. Raises ScanError if a broker does not
    answer, or belongs to another cluster than ``cluster_id``, if that is given."""
    loans: list[Loan] = []
    manifests: dict[Spot, PartitionManifest] = {}
    refused: dict[Spot, str] = {}
    expires_in_ms = duration_ms
    try:
        for port in ports:
            asked = [
                lease_request
                for lease_request in wanted
                if (lease_request.topic, lease_request.partition) not in manifests
            ]
            if not asked:
                break
            manifest = _asked(port, asked, duration_ms)
            loans.append(Loan(port, manifest.lease))
            if cluster_id and manifest.cluster_id != cluster_id:
                raise ScanError(f"{port.url} belongs to cluster {manifest.cluster_id}, not to {cluster_id}")
            expires_in_ms = min(expires_in_ms, manifest.expires_in_ms)
            manifests |= {(part.topic, part.partition): part for part in manifest.partitions}
            refused |= {(topic, index): why for topic, index, why in manifest.refused}
    except ScanError:
        for loan in loans:
            loan.end()
        raise
    refused = {spot: why for spot, why in refused.items() if spot not in manifests}
    return Borrowed(manifests, tuple(loans), refused, expires_in_ms)


def _asked(port: SecondPort, wanted: Sequence[LeaseRequest], duration_ms: int) -> Manifest:
    answer = port.post("/leases", {"partitions": wanted, "duration_ms": duration_ms})
    try:
        return from_json(answer)
    except ValueError as error:
        raise ScanError(f"{port.url}: {error}; is it the second port of a kpybroker?") from None
