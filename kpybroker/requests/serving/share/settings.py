"""The settings of a share group on the leaders of its partitions: configs of the broker, and those of the group."""

from typing import Any, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.duration import parse_duration_ms
from kpybroker.config.group import effective, within
from kpybroker.machines.metadata.features import DEAD_LETTERS, SHARE_VERSION
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.partition.role import READ_COMMITTED, READ_UNCOMMITTED, Role
from kpybroker.machines.share.partition import ShareSettings
from kpywire.time_search import Search

GROUP_RESOURCE = 32
_BY_DURATION = "by_duration:"


class ReadingSettings(NamedTuple):
    """The settings of a group for its readers."""

    partition: ShareSettings
    isolation: int
    """``share.isolation.level``."""
    reset: str
    """``share.auto.offset.reset``."""
    dead_letter_topic: str
    """``errors.deadletterqueue.topic.name``; empty if there is none."""
    copies_dead_letters: bool
    """``errors.deadletterqueue.copy.record.enable``."""


class ShareGroupSettings:
    """The settings of all groups. They are read for every request, and computed when a config has changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, BrokerConfig, int, ReadingSettings]] = {}

    def of(self, group_id: str, image: MetadataImage, config: BrokerConfig) -> ReadingSettings:
        """The settings of one group."""
        overrides = image.configs_of(GROUP_RESOURCE, group_id)
        known = self._known.get(group_id)
        level = image.features.get(SHARE_VERSION, 0)
        if known is not None and known[0] == overrides and known[1] is config and known[2] == level:
            return known[3]
        settings = settings_of(group_id, image, config)
        self._known[group_id] = (dict(overrides), config, level, settings)  # the image changes its configs in place
        return settings

    def forget(self, group_id: str) -> None:
        """Forget a group without members here."""
        self._known.pop(group_id, None)


def settings_of(group_id: str, image: MetadataImage, config: BrokerConfig) -> ReadingSettings:
    """The settings of one group, computed."""
    overrides = image.configs_of(GROUP_RESOURCE, group_id)
    values: Any = effective(overrides, config)
    dead_letter_topic = str(values["errors.deadletterqueue.topic.name"])

    def number(name: str) -> int:
        return within(config, name, int(values[name])) if name in overrides else int(values[name])

    return ReadingSettings(
        ShareSettings(
            number("share.delivery.count.limit"),
            number("share.partition.max.record.locks"),
            number("share.record.lock.duration.ms"),
            bool(values["share.renew.acknowledge.enable"]),
            image.features.get(SHARE_VERSION, 0) >= DEAD_LETTERS and dead_letter_topic != "",
        ),
        READ_COMMITTED if values["share.isolation.level"] == "read_committed" else READ_UNCOMMITTED,
        str(values["share.auto.offset.reset"]),
        dead_letter_topic,
        bool(values["errors.deadletterqueue.copy.record.enable"]),
    )


def start_offset(role: Role, reset: str, now_ms: int, search: Search) -> int:
    """The offset at which a group begins that has none (``startOffsetDuringInitialization``)."""
    if reset == "earliest":
        return role.log.log_start_offset
    if reset.startswith(_BY_DURATION):
        found = role.log.offset_for_timestamp(
            now_ms - (parse_duration_ms(reset.removeprefix(_BY_DURATION)) or 0), search
        )
        if found is not None and found.offset < role.high_watermark.offset:
            return int(found.offset)
    return role.high_watermark.offset
