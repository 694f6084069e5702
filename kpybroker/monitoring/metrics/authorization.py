"""The authorizer: its ACLs and decisions. Nothing is shown without one."""

from collections.abc import Iterator
from typing import Final

from kpybroker.machines.authorization.authorizer import Authorizer
from kpybroker.monitoring.metrics.table import COUNTER, GAUGE, NATIVE, MetricRow, Table, kafka, known_by

_PLUGIN: Final = "kafka.server:type=plugins,config=authorizer.class.name,class=StandardAuthorizer"

ACLS = Table(
    (),
    (
        kafka(
            GAUGE,
            "kafka_server_plugins_acls_total_count",
            "ACLs in the metadata",
            f"{_PLUGIN} attribute acls-total-count",
            native="kpybroker_acls",
        ),
    ),
)
DECISIONS = Table(
    ("result",),
    (
        known_by(
            NATIVE,
            COUNTER,
            "kpybroker_authorizations_total",
            "Decisions of the authorizer; Kafka has them as rates per minute, authorization-allowed and -denied",
        ),
    ),
)


def tables(authorizer: Authorizer | None) -> Iterator[Table]:
    """The tables of an authorizer."""
    if authorizer is not None:
        yield ACLS.with_rows([MetricRow((), (authorizer.acl_count,))])
        counts = {"allowed": authorizer.allowed_count, "denied": authorizer.denied_count}
        yield DECISIONS.with_rows([MetricRow((result,), (count,)) for result, count in counts.items()])
