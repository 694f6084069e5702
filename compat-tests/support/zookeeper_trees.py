"""The part of a tree in ZooKeeper that keeps configs, users, quotas, ACLs and tokens, as it can be compared."""

from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

KEPT: Final = (
    "/config/users",
    "/config/clients",
    "/config/ips",
    "/config/brokers",
    "/config/changes",
    "/kafka-acl",
    "/kafka-acl-extended",
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
    "/delegation_token",
)


class Kept(NamedTuple):
    """One znode: its content, the number of its writes and of changes of its children, and whether it stays."""

    content: bytes | None
    version: int
    children_version: int
    is_ephemeral: bool
    acls: tuple[Any, ...]


def kept(tree: KazooClient, below: tuple[str, ...] = KEPT) -> dict[str, Kept]:
    """All znodes at and below these paths."""
    found: dict[str, Kept] = {}

    def walk(path: str) -> None:
        try:
            content, stat = tree.get(path)
            names = tree.get_children(path)
            acls = tree.get_acls(path)[0]
        except NoNodeError:
            return
        shown = tuple((each.perms, each.id.scheme, each.id.id) for each in acls)
        # to this client an empty content and none look the same
        found[path] = Kept(content or None, stat.version, stat.cversion, stat.ephemeralOwner != 0, shown)
        for name in names:
            walk(f"{path}/{name}")

    for path in below:
        walk(path)
    return found


def without_order(found: dict[str, Kept]) -> dict[str, Kept]:
    """The znodes, with the notices of ACLs by their contents: one request of Java makes them in any order."""
    parents = ("/kafka-acl-changes/", "/kafka-acl-extended-changes/")
    notices = sorted((each for path, each in found.items() if path.startswith(parents)), key=lambda each: each.content)
    others = {path: each for path, each in found.items() if not path.startswith(parents)}
    return {**others, **{f"notice {number}": each for number, each in enumerate(notices)}}
