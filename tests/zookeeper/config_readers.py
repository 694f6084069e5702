"""The readers of configs: every read of a `BrokerConfig` or a `TopicConfig` is recorded with the function that asked.

The checks of a configuration read it too, and so does the answer of DescribeConfigs. Neither counts: a config that only
they read changes nothing. A config that is kept as an attribute is read where the attribute is.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.broker_values import KNOWN
from kpybroker.config.topic import TopicConfig, broker_defaults
from kpybroker.config.topic_configs import TOPIC_SYNONYMS

OWN = "kpybroker.config."
PREFIX = "listener.name."
_CHECKING = ("alter", "checks", "describe", "document", "dynamic", "refusals", "tiering")
NO_READERS = frozenset({f"{OWN}{name}" for name in _CHECKING})
"""Modules that check or show values and act on none."""
NOT_OF_CONFIGS = frozenset({"warnings", "topic_defaults", "originals", "static", "overrides", "values"})
"""Attributes that stand for no config, though configs are read while they are made."""

Readers = dict[str, set[str]]
"""The functions that read each config, as ``module:function``."""


class Recorder:
    """The reads while it records: ``brokers`` has those of broker configs, ``topics`` those of topic configs."""

    def __init__(self) -> None:
        self.brokers: Readers = defaultdict(set)
        self.topics: Readers = defaultdict(set)
        self._being_made: list[set[str]] = []
        """The configs read since the last attribute was set, for each configuration that is being built."""
        self._kept: dict[tuple[type, str], set[str]] = defaultdict(set)
        """The configs that attributes keep."""

    def note(self, readers: Readers, name: str) -> None:
        if self._being_made:
            self._being_made[-1].add(name)
        elif (reader := _reader(sys._getframe(2))) is not None:
            readers[name].add(reader)

    @contextmanager
    def making(self) -> Iterator[None]:
        self._being_made.append(set())
        try:
            yield
        finally:
            self._being_made.pop()

    def keep(self, kind: type, attribute: str) -> None:
        """Something was kept as an attribute of a configuration that is being built."""
        if self._being_made:
            if attribute not in NOT_OF_CONFIGS:
                self._kept[kind, attribute] |= self._being_made[-1]
            self._being_made[-1].clear()

    def note_attribute(self, readers: Readers, kind: type, attribute: str) -> None:
        kept = self._kept.get((kind, attribute), ())
        if self._being_made:
            self._being_made[-1].update(kept)
        elif kept and (reader := _reader(sys._getframe(2))) is not None:
            for name in kept:
                readers[name].add(reader)


class _Values(dict[str, Any]):
    """The values of a topic's configs while its `TopicConfig` is made."""

    def __init__(self, values: Mapping[str, Any], recorder: Recorder) -> None:
        super().__init__(values)
        self._recorder = recorder

    def __getitem__(self, name: str) -> Any:
        self._recorder.note(self._recorder.topics, name)
        return super().__getitem__(name)


class _Originals(dict[str, str]):
    """The texts of a configuration, some of which are read by their whole names."""

    def __init__(self, texts: Mapping[str, str], recorder: Recorder) -> None:
        super().__init__(texts)
        self._recorder = recorder

    def get(self, name: str, otherwise: Any = None) -> Any:
        self._recorder.note(self._recorder.brokers, _without_prefix(name))
        return super().get(name, otherwise)

    def __getitem__(self, name: str) -> str:
        self._recorder.note(self._recorder.brokers, _without_prefix(name))
        return super().__getitem__(name)


def _without_prefix(name: str) -> str:
    """A config without ``listener.name.LISTENER.`` and a mechanism."""
    if not name.startswith(PREFIX):
        return name
    base = name.removeprefix(PREFIX).partition(".")[2]
    return base if base in KNOWN else base.partition(".")[2]


def _reader(frame: FrameType | None) -> str | None:
    """The innermost function outside the configuration itself; None for one that only shows the value."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module in NO_READERS or frame.f_code is broker_defaults.__code__:
            return None
        if not module.startswith((OWN, __name__, "functools")):
            return f"{module}:{frame.f_code.co_qualname}" if module.startswith("kpybroker.") else None
        frame = frame.f_back
    return None


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record what is read, in this process."""
    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        _record_lookups(patch, recorder)
        _record_attributes(patch, recorder, BrokerConfig, recorder.brokers)
        _record_attributes(patch, recorder, TopicConfig, recorder.topics)
        yield recorder
    for topic, synonyms in TOPIC_SYNONYMS.items():
        for name, _ in synonyms:
            recorder.brokers[name] |= recorder.topics[topic]


def _record_lookups(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    def recorded(method: Any, position: int) -> Any:
        def read(*given: Any, **named: Any) -> Any:
            recorder.note(recorder.brokers, given[position])
            return method(*given, **named)

        return read

    patch.setattr(BrokerConfig, "__getitem__", recorded(BrokerConfig.__getitem__, 1))
    patch.setattr(BrokerConfig, "bytes_per_second", recorded(BrokerConfig.bytes_per_second, 1))
    patch.setattr(BrokerConfig, "is_set", recorded(BrokerConfig.is_set, 1))
    patch.setattr(BrokerConfig, "of_listener", recorded(BrokerConfig.of_listener, 2))
    make_broker, make_topic = BrokerConfig.__init__, TopicConfig.__init__

    def broker(config: BrokerConfig, *given: Any, **named: Any) -> None:
        with recorder.making():
            make_broker(config, *given, **named)
        config.originals = _Originals(config.originals, recorder)

    def topic(config: TopicConfig, values: Mapping[str, Any], *given: Any, **named: Any) -> None:
        with recorder.making():
            make_topic(config, _Values(values, recorder), *given, **named)
        config.values = values

    patch.setattr(BrokerConfig, "__init__", broker)
    patch.setattr(TopicConfig, "__init__", topic)


def _record_attributes(patch: pytest.MonkeyPatch, recorder: Recorder, kind: type, readers: Readers) -> None:
    def keep(config: Any, attribute: str, value: Any) -> None:
        recorder.keep(kind, attribute)
        object.__setattr__(config, attribute, value)

    def read(config: Any, attribute: str) -> Any:
        recorder.note_attribute(readers, kind, attribute)
        return object.__getattribute__(config, attribute)

    patch.setattr(kind, "__setattr__", keep, raising=False)
    patch.setattr(kind, "__getattribute__", read, raising=False)
