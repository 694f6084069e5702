"""The ACLs and quotas of one mirror, carried over by one broker: every few seconds they become those of the source.

Three steps, each after the answer to the one before: notes, then what is new or changed, then what is deleted. A step
that fails is found again at the next look.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kpybroker.client import acl_requests, quota_requests
from kpybroker.client.acl_requests import AclBinding, AclBindingFilter
from kpybroker.client.client import Client
from kpybroker.client.sources import MirrorSource
from kpybroker.hosts.mirror.parts import MirrorParts
from kpybroker.hosts.mirror.recurring_looks import RecurringLooks
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import BROKER_RESOURCE
from kpybroker.machines.metadata.mirror_configs import CARRIED
from kpybroker.machines.mirror.carrying import IP, CarriedAcl, CarryingPlan, is_of_mirror, plan
from kpybroker.machines.mirror.mirror import ACLS, QUOTAS, Mirror
from kpybroker.runtime.io.scheduler import Submit
from kpywire import error_codes
from kpywire.messages.alter_client_quotas import AlterClientQuotasRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

log = logging.getLogger("kpybroker.mirror")

LOOK_MS: Final = 5_000
SET: Final = 0
QuotaKey = tuple[tuple[tuple[str, str | None], ...], str]
"""An entity and the name of one of its quotas."""


class SourceSettings(NamedTuple):
    """The ACLs and quotas of a source; None for what is not carried over, or cannot be read."""

    acls: list[CarriedAcl] | None
    quotas: dict[QuotaKey, float] | None
    problems: tuple[str, ...] = ()
    """Why something cannot be read."""


def read_settings(client: Client, mirror: Mirror) -> SourceSettings:
    """The ACLs and quotas of a source, as far as its mirror carries them over and the source shows them. Raises
    Unreachable."""
    acls = quotas = None
    problems: list[str] = []
    if ACLS in mirror.carries:
        try:
            found = (CarriedAcl(*each) for each in acl_requests.describe(client))
            acls = [each for each in found if is_of_mirror(mirror, each)]
        except KafkaError as error:
            problems.append(f"The ACLs of the source cannot be read: {error}")
    if QUOTAS in mirror.carries:
        try:
            quotas = _quotas_of(client)
        except KafkaError as error:
            is_old = error.code == error_codes.UNSUPPORTED_VERSION
            reason = "it is older than Kafka 2.6 and does not describe them" if is_old else str(error)
            problems.append(f"The quotas of the source cannot be read: {reason}")
    return SourceSettings(acls, quotas, tuple(problems))


def _quotas_of(client: Client) -> dict[QuotaKey, float]:
    return {
        (tuple(sorted(each.names.items())), key): value
        for each in quota_requests.find(client, {})
        if IP not in each.names
        for key, value in each.values.items()
    }


class SettingsCarrier:
    """Carries the ACLs and quotas of one mirror over."""

    def __init__(self, parts: MirrorParts, mirror: Mirror, read: Submit) -> None:
        """``read`` does in a thread what waits for the source."""
        self._parts = parts
        self._mirror = mirror
        self._read = read
        self._source: MirrorSource | None = None
        self._looking = RecurringLooks(parts.scheduler, self._look)
        self._noted = ""
        """The problem that was logged last."""

    def begin(self, source: MirrorSource) -> None:
        """Carry over from now on what this mirror carries over."""
        self._source = source
        if self._mirror.carries:
            self._looking.begin()

    def stop(self) -> None:
        """Leave everything as it is."""
        self._source = None
        self._looking.stop()

    def _look(self) -> None:
        source, mirror = self._source, self._mirror
        assert source is not None

        def read() -> SourceSettings:
            with source.client() as client:
                return read_settings(client, mirror)

        self._read(read, self._has_read)

    def _has_read(self, found: SourceSettings | None, error: BaseException | None) -> None:
        if found is None:
            self._note(f"The ACLs and quotas of the source cannot be read: {error}")
            self._over()
            return
        if found.problems:
            self._note("; ".join(found.problems))
        notes = [each for each in self._configured() if each]
        acl_plan: CarryingPlan[CarriedAcl, None] = CarryingPlan(frozenset(notes), {}, [], 0)
        acls, quotas = self._acls(), self._quotas()
        quota_keys = list(quotas) if found.quotas is None else [*quotas, *found.quotas]
        if found.acls is not None:
            acl_plan = plan(self._mirror.name, dict.fromkeys(found.acls), dict.fromkeys(acls), notes, quota_keys)
        quota_plan: CarryingPlan[QuotaKey, float] = CarryingPlan(acl_plan.notes, {}, [], 0)
        if found.quotas is not None:
            acl_keys = acls if found.acls is None else [*acls, *found.acls]
            quota_plan = plan(self._mirror.name, found.quotas, quotas, acl_plan.notes, acl_keys)
        if acl_plan.left_out + quota_plan.left_out:
            self._note(f"{acl_plan.left_out + quota_plan.left_out} ACLs and quotas are too many to be carried over")
        steps = self._steps(acl_plan, quota_plan, quota_plan.notes, set(notes))
        self._go_on(steps)

    def _steps(
        self,
        acls: CarryingPlan[CarriedAcl, None],
        quotas: CarryingPlan[QuotaKey, float],
        notes: frozenset[str],
        before: set[str],
    ) -> Iterator[Any]:
        """The requests, in their order."""
        if notes != before:
            value = AlterableConfig(name=CARRIED, config_operation=SET, value=",".join(sorted(notes)))
            resource = AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="", configs=[value])
            yield IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        yield from acl_requests.creations([AclBinding(*each) for each in acls.put])
        if acls.delete:
            yield acl_requests.deletion([AclBindingFilter(*each) for each in acls.delete])
        changes: dict[Any, tuple[dict[str, float], list[str]]] = {}
        for (entity, key), value_here in quotas.put.items():
            changes.setdefault(entity, ({}, []))[0][key] = value_here
        for entity, key in quotas.delete:
            changes.setdefault(entity, ({}, []))[1].append(key)
        if changes:
            entries = [quota_requests.entry(dict(entity), *each) for entity, each in changes.items()]
            yield AlterClientQuotasRequest(entries=entries, validate_only=False)

    def _go_on(self, steps: Iterator[Any]) -> None:
        """Ask for the next step, if there is one."""
        request = next(steps, None)
        if request is None or self._source is None:
            self._over()
            return

        def answered(response: Any) -> None:
            problem = next(_problems(response), None)
            if problem is None:
                self._go_on(steps)
            else:
                self._note(f"ACLs or quotas of mirror {self._mirror.name} are not carried over: {problem}")
                self._over()

        self._parts.ask_controller(request, answered)

    def _over(self) -> None:
        self._looking.over(LOOK_MS)

    def _note(self, problem: str) -> None:
        if problem != self._noted:
            self._noted = problem
            log.warning("%s", problem)

    # This cluster's

    def _configured(self) -> list[str]:
        return self._parts.image.configs_of(BROKER_RESOURCE, "").get(CARRIED, "").split(",")

    def _acls(self) -> list[CarriedAcl]:
        return [
            CarriedAcl(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for each in self._parts.image.acls.values()
        ]

    def _quotas(self) -> Mapping[QuotaKey, float]:
        return {
            (tuple(sorted(entity)), key): value
            for entity, quotas in self._parts.image.client_quotas.items()
            if all(kind != IP for kind, _ in entity)
            for key, value in quotas.items()
        }


def _problems(response: Any) -> Iterator[str]:
    """The errors of an answer in words."""
    for field in ("responses", "results", "filter_results", "entries"):
        for each in getattr(response, field, None) or ():
            if each.error_code != error_codes.NONE:
                yield f"{error_codes.name(each.error_code)}, {each.error_message or 'without a reason'}"
