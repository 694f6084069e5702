"""The text Kafka documents each config with (HTML, from Apache Kafka under the Apache License 2.0).

It is read from ``documentation.json`` at the first request for it, so most brokers never load it.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from kpybroker.config.own_configs import OWN_DOCUMENTATION


@cache
def _texts() -> Mapping[str, Mapping[str, str | None]]:
    content = files("kpybroker.config").joinpath("documentation.json").read_text(encoding="utf-8")
    texts: Mapping[str, Mapping[str, str | None]] = json.loads(content)
    return texts


def documentation_of(table: str, name: str) -> str | None:
    """The text of a config of ``broker``, ``topic``, ``group`` or ``client-metrics``; None if there is none."""
    return OWN_DOCUMENTATION.get(name) or _texts()[table].get(name)
