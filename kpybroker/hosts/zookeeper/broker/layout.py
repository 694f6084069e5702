"""The znodes that every broker makes at its start if they are missing, the id of the cluster, and ids of brokers
(Kafka's ``KafkaServer.initZkClient``, ``getOrGenerateClusterId``, ``generateBrokerId``)."""

from collections.abc import Sequence
from random import Random

from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient, ZooKeeperError
from kpybroker.machines.metadata.topic import directory_is_reserved
from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import (
    CREATOR_ALL_ACL,
    OPEN_ACL,
    READ_ACL,
    Create,
    Exists,
    Get,
    Set,
    ZnodeAcl,
)
from kpybroker.machines.zookeeper.tree import cluster, paths
from kpywire import uuid


class DefaultAcls:
    """The ACLs of the znodes that this broker creates (Kafka's ``ZkData.defaultAcls``)."""

    def __init__(self, *, is_secure: bool) -> None:
        """``is_secure`` is ``zookeeper.set.acl``."""
        self._is_secure = is_secure

    def of(self, path: str) -> Sequence[ZnodeAcl]:
        """The ACLs of a znode."""
        if not self._is_secure or path == paths.CONSUMERS or path.startswith(f"{paths.CONSUMERS}/"):
            return OPEN_ACL
        if any(path == each or path.startswith(f"{each}/") for each in paths.SENSITIVE):
            return CREATOR_ALL_ACL
        return (*CREATOR_ALL_ACL, *READ_ACL)


async def make_path(client: ZooKeeperClient, acls: DefaultAcls, path: str) -> None:
    """Create a persistent znode and its parents where they are missing."""
    if await client.ask_if_there(Exists(path)) is not None:
        return
    parent = path.rpartition("/")[0]
    if parent:
        await make_path(client, acls, parent)
    await _create_if_missing(client, Create(path, None, acls.of(path)))


async def make_top_level(client: ZooKeeperClient, acls: DefaultAcls) -> None:
    """Create the znodes that hold all others."""
    for path in paths.PERSISTENT:
        await make_path(client, acls, path)


async def cluster_id(client: ZooKeeperClient, acls: DefaultAcls, rng: Random) -> str:
    """The id of the cluster; the first broker chooses it."""
    found = await client.ask_if_there(Get(paths.CLUSTER_ID))
    if found is None:
        await make_path(client, acls, "/cluster")
        content = cluster.encode_cluster_id(uuid.to_string(_new_uuid(rng)))
        await _create_if_missing(client, Create(paths.CLUSTER_ID, content, acls.of(paths.CLUSTER_ID)))
        found = await client.ask_until_answered(Get(paths.CLUSTER_ID))
    return cluster.decode_cluster_id(found.data)


async def generated_id(client: ZooKeeperClient, acls: DefaultAcls, reserved_max_id: int) -> int:
    """The next id for a broker that has none: the version of a znode, above the ids that people choose."""
    await make_path(client, acls, paths.BROKER_SEQUENCE)
    stat = await client.ask_until_answered(Set(paths.BROKER_SEQUENCE, b""))
    return int(stat.version) + reserved_max_id


async def _create_if_missing(client: ZooKeeperClient, create: Create) -> None:
    try:
        await client.ask_until_answered(create)
    except ZooKeeperError as error:
        if error.code != error_codes.NODE_EXISTS:
            raise


def _new_uuid(rng: Random) -> bytes:
    """A random id that does not begin with a dash, as Kafka's ``Uuid.randomUuid``."""
    while True:
        value = rng.randbytes(16)
        if not directory_is_reserved(value) and not uuid.to_string(value).startswith("-"):
            return value
