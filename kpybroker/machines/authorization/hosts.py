"""The ACLs of one principal, to be found by the address of a client. Pure.

A host is an address as text, ``*``, or a network (``networks.py``). Networks are found by their lengths: an address is
cut at each length that any network has, so the cost does not depend on the number of ACLs.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from kpybroker.machines.authorization.networks import InvalidNetwork, IpAddress, Network, is_network, parse_network
from kpybroker.machines.authorization.resources import WILDCARD
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord as Acl

_Acls = dict[bytes, Acl]
_NONE: Final[Mapping[bytes, Acl]] = {}


class AclsByHost:
    """The ACLs of one principal."""

    __slots__ = ("_by_host", "_networks")

    def __init__(self) -> None:
        self._by_host: dict[str, _Acls] = {}
        self._networks: dict[tuple[int, int], dict[int, _Acls]] | None = None
        """The networks of each kind and length, by their first bits; None without any."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._by_host)

    def add(self, acl_id: bytes, acl: Acl) -> None:
        """Add an ACL whose id is new."""
        self._by_host.setdefault(acl.host, {})[acl_id] = acl
        network = _network(acl)
        if network is not None:
            if self._networks is None:
                self._networks = {}
            of_length = self._networks.setdefault((network.bits, network.bits - network.prefix_bits), {})
            of_length.setdefault(network.prefix, {})[acl_id] = acl

    def remove(self, acl_id: bytes, acl: Acl) -> None:
        """Remove an ACL that was added."""
        _remove(self._by_host, acl.host, acl_id)
        network = _network(acl)
        if network is not None:
            assert self._networks is not None
            length = network.bits, network.bits - network.prefix_bits
            of_length = self._networks[length]
            _remove(of_length, network.prefix, acl_id)
            if not of_length:
                del self._networks[length]
                self._networks = self._networks or None

    def about(self, host: str, address: IpAddress | None) -> Iterator[Acl]:
        """The ACLs that count for a client at a host, whose ``address`` it is. None: as if there were no networks."""
        by_host = self._by_host
        yield from by_host.get(WILDCARD, _NONE).values()
        if host != WILDCARD:
            yield from by_host.get(host, _NONE).values()
        if self._networks is not None and address is not None:
            bits, number = address
            for (kind, host_bits), of_length in self._networks.items():
                if kind == bits:
                    yield from of_length.get(number >> host_bits, _NONE).values()


def _network(acl: Acl) -> Network | None:
    """The network that an ACL names; None for an address, and for a text that is neither."""
    if not is_network(acl.host):
        return None
    try:
        return parse_network(acl.host)
    except InvalidNetwork:
        return None


def _remove(holder: "dict[str, _Acls] | dict[int, _Acls]", key: "str | int", acl_id: bytes) -> None:
    acls = holder[key]  # type: ignore[index]
    del acls[acl_id]
    if not acls:
        del holder[key]  # type: ignore[arg-type]
