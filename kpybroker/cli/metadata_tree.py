"""A cluster's metadata as a tree of names, the one that kafka-metadata-shell shows. Pure.

Invariant: a node is a dictionary of its children, sorted by name as text, or a leaf's text on one line.
"""

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from kpybroker import __version__
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.image_records import record_version
from kpybroker.machines.metadata.topic import Topic
from kpywire.message_json import HIDDEN, as_json
from kpywire.schema import is_secret_config
from kpywire.uuid import to_string

Tree = dict[str, Any]

RESOURCES = {2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_QUOTA_TYPES = {"client-id": "clientId", "user": "user", "ip": "ip"}


class NoSuchNode(Exception):
    """A path that does not exist. The text is in the words of a shell."""


def tree_of(image: MetadataImage) -> Tree:
    """The whole tree."""
    return {
        "image": {
            "acls": {"byId": {to_string(acl_id): _leaf(acl, image) for acl_id, acl in image.acls.items()}},
            "clientQuotas": {
                "_".join(f"{_QUOTA_TYPES.get(kind, kind)}({name or ''})" for kind, name in entity): {
                    key: str(value) for key, value in quotas.items()
                }
                for entity, quotas in image.client_quotas.items()
            },
            "cluster": {
                "brokers": {
                    str(each): _leaf(found.to_record(image.level), image) for each, found in image.brokers.items()
                },
                "controllers": {
                    str(each): _leaf(found.to_record(), image) for each, found in image.controllers.items()
                },
            },
            "configs": {
                f"{RESOURCES.get(kind, kind)}{':' * bool(name)}{name}": _shown(configs)
                for (kind, name), configs in image.configs.items()
            },
            "delegationToken": {name: _leaf(token, image) for name, token in image.delegation_tokens.items()},
            "features": {
                **{f"finalized_{name}": str(level) for name, level in image.features.items()},
                "metadataVersion": _release(image.metadata_version),
            },
            "producerIds": {"nextProducerId": str(image.next_producer_id)},
            "provenance": f"offset {image.next_offset - 1}, epoch {image.epoch}",
            "scram": {
                name: {
                    user: _leaf(found, image)
                    for (kind, user), found in image.scram_credentials.items()
                    if kind == number
                }
                for number, name in MECHANISMS.items()
            },
            "topics": {
                "byId": {to_string(each.id): _topic(each, image) for each in image.topics.values()},
                "byName": {each.name: _topic(each, image) for each in image.topics.values()},
            },
        },
        "local": {"commitId": "unknown", "version": f"kpybroker {__version__}"},
    }


def _release(level: int | None) -> str:
    """``30 (4.3-IV0)``."""
    known = {each.level: each.version for each in metadata_version.VERSIONS}
    return f"{level} ({known[level]})" if level in known else str(level)


def _topic(topic: Topic, image: MetadataImage) -> Tree:
    found: Tree = {"id": to_string(topic.id), "name": topic.name}
    for number, partition in topic.partitions.items():
        record = partition.to_record(topic.id, number, image.level, elr_enabled=image.elr_enabled)
        shown = as_json(record, record_version(record, image.level))
        found[str(number)] = _line({key: shown[key] for key in shown if key not in ("partitionId", "topicId")})
    return found


def _leaf(record: Any, image: MetadataImage) -> str:
    return _line(as_json(record, record_version(record, image.level)))


def _shown(configs: Mapping[str, str]) -> dict[str, str]:
    return {name: HIDDEN if is_secret_config(name) else value for name, value in configs.items()}


def _line(found: dict[str, Any]) -> str:
    return json.dumps(found, ensure_ascii=False)


def walk(tree: Tree, path: str) -> tuple[str, Tree | str]:
    """The node at a path, and that path in its simplest form. NoSuchNode if there is none."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    node: Tree | str = tree
    for part in parts:
        if not isinstance(node, dict) or part not in node:
            raise NoSuchNode(f"{path}: No such file or directory.")
        node = node[part]
    return "/" + "/".join(parts), node


def listing(tree: Tree, path: str) -> list[str]:
    """The entries of a directory; a leaf is listed itself. NoSuchNode."""
    where, node = walk(tree, path)
    return sorted(node) if isinstance(node, dict) else [where]


def content(tree: Tree, path: str) -> str:
    """The text of a leaf. NoSuchNode, also for a directory."""
    where, node = walk(tree, path)
    if isinstance(node, dict):
        raise NoSuchNode(f"{where}: Is a directory")
    return node


def find(tree: Tree, path: str, name: str = "*") -> Iterator[str]:
    """Every path from here down whose last part fits ``name``. NoSuchNode."""
    where, node = walk(tree, path)
    if fnmatchcase(where.rpartition("/")[2], name):
        yield where
    if isinstance(node, dict):
        for child in sorted(node):
            yield from find(tree, f"{where.rstrip('/')}/{child}", name)


def drawing(tree: Tree, path: str) -> Iterator[str]:
    """The tree from a path down, indented. NoSuchNode."""
    _, node = walk(tree, path)
    return _draw(node, "")


def _draw(node: Tree | str, indent: str) -> Iterator[str]:
    if isinstance(node, str):
        yield f"{indent}{node}"
        return
    for name in sorted(node):
        yield f"{indent}{name}:"
        yield from _draw(node[name], f"{indent}  ")
