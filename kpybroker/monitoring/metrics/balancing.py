"""The balancer of the cluster, on the node whose controller is active: its last plan, and what it moves."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpybroker.monitoring.metrics.table import GAUGE, NATIVE, MetricRow, Table, known_by

if TYPE_CHECKING:
    from kpybroker.machines.balance.standing import BalancerStanding

BALANCER = Table(
    (),
    (
        known_by(NATIVE, GAUGE, "kpybroker_balancer_advised_moves", "Moves of the balancer's last plan"),
        known_by(NATIVE, GAUGE, "kpybroker_balancer_advised_bytes", "Bytes that its last plan copies"),
        known_by(NATIVE, GAUGE, "kpybroker_balancer_hot_partitions", "Partitions that no placement helps"),
        known_by(NATIVE, GAUGE, "kpybroker_balancer_left_partitions", "Partitions that are left in its present step"),
        known_by(NATIVE, GAUGE, "kpybroker_balancer_left_bytes", "Bytes that are left to copy in its present step"),
        known_by(NATIVE, GAUGE, "kpybroker_balancer_throttle_bytes", "Throttle of its moves, in bytes a second"),
    ),
)


def tables(standing: "BalancerStanding | None") -> Iterator[Table]:
    """The table of the balancer; none where it does not run."""
    if standing is None:
        return
    advice = standing.advice
    moves, size, hot = (0, 0, 0) if advice is None else (len(advice.moves), advice.copied_bytes, len(advice.hot))
    moves += 0 if advice is None else advice.moves_left_out
    values = (moves, size, hot, standing.left, standing.left_bytes, standing.rate)
    yield BALANCER.with_rows([MetricRow((), values)])
