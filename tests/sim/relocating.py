"""An operator who has partitions moved between the log directories of their brokers, and back, under load."""

from collections.abc import Sequence

from kpywire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)

from .client import Client, NoAnswer
from .layout import DIRECTORIES


async def relocate(client: Client, partitions: Sequence[tuple[str, int]]) -> None:
    """For as long as the simulation goes on."""
    rng = client.rng
    while not client.is_over:
        await client.pause(rng.choice((50, 500)))
        topic, index = rng.choice(partitions)
        moved = AlterReplicaLogDirTopic(name=topic, partitions=[index])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=rng.choice(DIRECTORIES), topics=[moved])])
        try:
            await client.ask(client.any_node(), request)
        except NoAnswer:
            continue
