"""Dialling every listener that brokers advertise, for ``kpybroker doctor``: with TLS and without."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from kpybroker.cli import listener_diagnoses
from kpybroker.cli.diagnoses import Diagnosis
from kpybroker.cli.listener_diagnoses import ListenerAddress, ProbedListener, listeners_of
from kpybroker.client import probes
from kpybroker.client.certificate import of_der


def listeners(found: Mapping[int, tuple[str, int, Mapping[str, str | None]]], protocol: str) -> Iterator[Diagnosis]:
    """Examine the listeners of brokers, each by its id with the address that it advertised here, and its configs.

    ``protocol`` is the security protocol of that address.
    """
    places = [
        each
        for broker, (host, port, configs) in found.items()
        for each in listeners_of(broker, configs, ListenerAddress(broker, protocol, host, port, protocol))
    ]
    if all(each.protocol == "PLAINTEXT" for each in places):
        return
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
