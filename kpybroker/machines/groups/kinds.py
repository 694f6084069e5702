"""All kinds of groups: a new kind is a package and a row here."""

from typing import Final

from kpybroker.machines.groups.classic import kind as classic
from kpybroker.machines.groups.consumer import kind as consumer
from kpybroker.machines.groups.share import kind as share
from kpybroker.machines.groups.streams import kind as streams

KINDS: Final = (
    classic.KIND,
    consumer.KIND,
    share.KIND,
    streams.KIND,
)
