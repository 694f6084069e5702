"""IP addresses as Java writes them (``InetAddress.getHostAddress``): ACLs compare them as text."""

from functools import lru_cache


@lru_cache(maxsize=1024)
def java_address(host: str) -> str:
    """The text of an address: eight groups without zeros in front for IPv6, four numbers for IPv4 (also mapped into
    IPv6). A text that is no address stays as it is."""
    if ":" not in host:
        return host
    from ipaddress import IPv6Address

    plain, percent, scope = host.partition("%")
    try:
        address = IPv6Address(plain)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":")) + percent + scope


def is_address(host: str) -> bool:
    """Whether a text is an address of IPv4 or IPv6, with or without a scope."""
    from ipaddress import ip_address

    try:
        ip_address(host)
    except ValueError:
        return False
    return True
