"""Dialling every listener that brokers advertise, for ``kpybroker doctor``: with TLS and without."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from kpybroker.cli import listener_diagnoses
from kpybroker.cli.diagnoses import Diagnosis
from kpybroker.cli.listener_addresses import ListenerAddress
from kpybroker.cli.listener_diagnoses import ProbedListener
from kpybroker.client import probes
from kpybroker.client.certificate import of_der


def listeners(places: Iterable[ListenerAddress]) -> Iterator[Diagnosis]:
    """Examine listeners."""
    yield from listener_diagnoses.listeners([_dialled(each) for each in places], datetime.now(UTC))


def _dialled(listener: ListenerAddress) -> ProbedListener:
    place = (listener.host, listener.port)
    der = probes.certificate(*place) if listener.protocol.endswith("SSL") else None
    has_tls = der is not None or probes.is_tls(*place)
    context = probes.unverified_context() if has_tls else None
    return ProbedListener(
        listener,
        has_tls,
        is_plain=not has_tls and probes.is_kafka(*place),
        shows_certificate=der is not None,
        certificate=None if der is None else of_der(der),
        mechanisms=tuple(probes.mechanisms(*place, context)),
    )
