"""The decision to read files: the second ports of a cluster's brokers are found, and the partitions of a plan borrowed.

With ``transport=auto`` files are read where that is possible and worth it, and Fetch serves everything else; with
``transport=files`` an error says why it is not possible.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import unquote, urlsplit

from kpybroker.client.client import Client
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.lease_manifest import LeaseRequest
from kpybroker.machines.scan.errors import BadOption, NotLentYet, ScanError
from kpybroker.machines.scan.options import FETCH, FILES, ScanOptions
from kpybroker.machines.scan.ranges import OffsetRange, Spot
from kpybroker.pipeline.scan.borrowing import Borrowed, SecondPort, borrow
from kpybroker.pipeline.scan.files import FileTransport
from kpywire import error_codes
from kpywire.messages.describe_cluster import DescribeClusterRequest
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

WORTH_BYTES: Final = 4 * 1024 * 1024
"""A plan of fewer bytes than that is read by Fetch: a lease takes some calls too."""
BROKER: Final = 4
LISTENER: Final = "kpybroker.http.listener"
USUAL: Final = "127.0.0.1:9404"
"""The second port of a broker whose configuration names none."""
PASSING: Final = tuple(f"{error_codes.name(code)}:" for code in range(256) if error_codes.retriable(code))
"""The errors of brokers that may lend a partition later."""
LOOPBACK: Final = ("127.", "localhost", "::1")


def borrowed(
    options: ScanOptions, client: Client, parts: Sequence[OffsetRange], offset_bytes: Mapping[Spot, float]
) -> Borrowed | None:
    """The files of a plan, or None where Fetch reads all of it. Raises ScanError if files are demanded and cannot be
    read here."""
    if options.transport == FETCH or not parts:
        return None
    if options.transport == FILES:
        return client.retrying(lambda: _expected(options, client, parts))
    if sum(part.offsets * offset_bytes.get(part.spot, 0.0) for part in parts) < WORTH_BYTES:
        return None
    with suppress(ScanError, KafkaError, Unreachable):
        return _borrowed(options, client, parts)
    return None


def _expected(options: ScanOptions, client: Client, parts: Sequence[OffsetRange]) -> Borrowed:
    """The files. Raises KafkaError, which is tried again, if a client that expects the cluster gets nothing yet."""
    try:
        return _borrowed(options, client, parts)
    except NotLentYet as error:
        if not client.settings.expects_cluster:
            raise
        raise KafkaError(error_codes.NETWORK_EXCEPTION, str(error)) from None


def _borrowed(options: ScanOptions, client: Client, parts: Sequence[OffsetRange]) -> Borrowed:
    starts: dict[Spot, int] = {}
    for part in parts:
        starts[part.spot] = min(starts.get(part.spot, part.start_offset), part.start_offset)
    wanted = [LeaseRequest(*spot, start) for spot, start in starts.items()]
    cluster_id: str = client.call(DescribeClusterRequest(include_cluster_authorized_operations=False)).cluster_id
    found = borrow(_ports(options, client), wanted, options.lease_ms, cluster_id)
    try:
        return _readable(options, found, parts)
    except ScanError:
        found.end()
        raise


def _readable(options: ScanOptions, found: Borrowed, parts: Sequence[OffsetRange]) -> Borrowed:
    """The part of what is lent that can be read here. Raises ScanError if that is not all and files are demanded."""
    files = FileTransport(found.manifests)
    reasons = dict(found.refused)
    for part in parts:
        if part.spot in found.manifests and not files.has(part):
            path = os.path.dirname(found.manifests[part.spot].segments[0].path)
            reasons[part.spot] = f"its files in {path} cannot be read here"
    if reasons and options.transport == FILES:
        (topic, index), why = next(iter(reasons.items()))
        refusal = NotLentYet if why.startswith(PASSING) else ScanError
        raise refusal(f"transport=files: {topic}-{index}: {why}")
    manifests = {spot: manifest for spot, manifest in found.manifests.items() if spot not in reasons}
    if not manifests:
        raise ScanError("no partition can be read from files here")
    return found._replace(manifests=manifests)


def _ports(options: ScanOptions, client: Client) -> list[SecondPort]:
    """The second ports of the brokers. Raises ScanError if none is known."""
    named = [port_of(text) for text in options.second_ports]
    ports = named or list(_found_ports(client))
    if not ports:
        raise ScanError("no broker of this cluster says where its second port is; the option secondPorts names it")
    return ports


def port_of(text: str) -> SecondPort:
    """A second port from ``http://user:password@host:port``. Raises BadOption."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadOption(f"secondPorts: no address: {parts.hostname or text}; it looks like http://127.0.0.1:9404")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    address = f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")
    return SecondPort(address, unquote(parts.username or ""), unquote(parts.password or ""))


def _found_ports(client: Client) -> Iterator[SecondPort]:
    for node in client.nodes():
        listener = _configured(client, node.node_id)
        if listener is None and node.host.startswith(LOOPBACK):
            listener = USUAL
        if listener:
            yield SecondPort(f"http://{listener}")


def _configured(client: Client, node_id: int) -> str | None:
    """The address of a broker's second port by its configuration; None if it names none."""
    wanted = DescribeConfigsResource(resource_type=BROKER, resource_name=str(node_id), configuration_keys=[LISTENER])
    try:
        answer = client.call_node(node_id, DescribeConfigsRequest(resources=[wanted]))
    except KafkaError:
        return None
    for result in answer.results:
        for config in result.configs:
            if config.name == LISTENER:
                value: str | None = config.value
                return value
    return None
