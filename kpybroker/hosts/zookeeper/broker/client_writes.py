"""AlterClientQuotas and AlterUserScramCredentials, written to ZooKeeper. Decided in `client_configs`.

Any broker writes quotas, only the controller writes credentials, as in Kafka 3.9.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from kpybroker.hosts.zookeeper.broker.entity_writes import catch_up, read_configs, write_configs
from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient, ZooKeeperError
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.zookeeper.broker import client_configs
from kpybroker.machines.zookeeper.broker.client_configs import Names
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
    OpData,
)
from kpywire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

log = logging.getLogger("kpybroker.zookeeper")


class ClientWrites:
    """The writer of quotas and credentials."""

    def __init__(
        self, client: ZooKeeperClient, acls: DefaultAcls, read: Callable[[ConfigEntity], Awaitable[None]]
    ) -> None:
        """``read`` reads an entity again, so that this broker knows what it wrote."""
        self._client = client
        self._acls = acls
        self._read = read

    async def alter_quotas(self, request: AlterClientQuotasRequest, _call: Call) -> AlterClientQuotasResponse:
        """Each entity succeeds or fails by itself."""
        await catch_up(self._client)
        outcomes: dict[tuple[tuple[str, str | None], ...], tuple[Names, KafkaError | None]] = {}
        for entry in request.entries:
            names = {part.entity_type: part.entity_name for part in entry.entity}
            refusal = await self._tried(self._alter_quotas(names, entry.ops, is_trial=request.validate_only))
            outcomes[tuple(sorted(names.items()))] = names, refusal
        return AlterClientQuotasResponse(
            throttle_time_ms=0, entries=[_entry(names, refusal) for names, refusal in outcomes.values()]
        )

    async def _alter_quotas(self, names: Names, operations: list[OpData], *, is_trial: bool) -> None:
        entity = client_configs.entity_of(names)
        values = client_configs.with_quotas(entity, await read_configs(self._client, entity), operations)
        if not is_trial:
            client_configs.check_configs(entity, values)
            await write_configs(self._client, self._acls, entity, values)
            await self._read(entity)

    async def alter_credentials(
        self, request: AlterUserScramCredentialsRequest, _call: Call
    ) -> AlterUserScramCredentialsResponse:
        """Each user succeeds or fails by itself."""
        refusals: dict[str, KafkaError] = client_configs.faults(request)
        names = dict.fromkeys((*(each.name for each in request.upsertions), *(each.name for each in request.deletions)))
        changed = []
        await catch_up(self._client)
        for name in names:
            if name not in refusals:
                refusal = await self._tried(self._alter_credentials(request, name))
                if refusal is None:
                    changed.append(name)
                else:
                    refusals[name] = refusal
        results = [
            AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.message)
            for name, error in refusals.items()
        ]
        results += [
            AlterUserScramCredentialsResult(user=name, error_code=error_codes.NONE, error_message="")
            for name in changed
        ]
        return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results)

    async def _alter_credentials(self, request: AlterUserScramCredentialsRequest, name: str) -> None:
        entity = ConfigEntity(configs.USERS, paths.sanitize(name))
        values = client_configs.with_credentials(request, name, await read_configs(self._client, entity))
        client_configs.check_configs(entity, values)
        await write_configs(self._client, self._acls, entity, values)
        await self._read(entity)

    @staticmethod
    async def _tried(attempt: Awaitable[None]) -> KafkaError | None:
        """The reason why an attempt failed; None if it did not."""
        try:
            await attempt
        except KafkaError as error:
            return error
        except (ZooKeeperError, InvalidZnode) as error:
            log.error("Quotas and users are not changed: %s", error)
            return KafkaError(error_codes.UNKNOWN_SERVER_ERROR, str(error))
        return None


def _entry(names: Names, refusal: KafkaError | None) -> Any:
    return AlterClientQuotasResponseEntryData(
        error_code=error_codes.NONE if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
        entity=[
            AlterClientQuotasResponseEntityData(entity_type=kind, entity_name=name) for kind, name in names.items()
        ],
    )
