"""The page of the balancer: its plan with reasons, for viewers who may know the topics, in the console and the CLI."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from console_node import ConsoleNode, console_node
from shown_tables import tables_of

from kpybroker.cli import main
from kpybroker.machines.balance.model import BalanceModel, BalanceNode, PartitionLoad
from kpybroker.machines.balance.plan_file import wanted_in
from kpybroker.machines.balance.planner import plan
from kpybroker.machines.balance.standing import SHOWN_MOVES, Advice, BalancerStanding, advice_of
from kpybroker.machines.console.balance import visible_to
from kpybroker.monitoring.metrics import balancing
from kpybroker.node.assembly.kraft_source import LateBalancer

LINE = "It moves nothing by itself."
DISK = 1_000_000


def advice(partitions: int = 4) -> Advice:
    """The advice for two brokers of which one has everything."""
    model = BalanceModel([BalanceNode(each, "a", disk_bytes=DISK, used_bytes=0) for each in (1, 2)])
    topic = model.add_topic("orders")
    for number in range(partitions):
        model.add_partition(topic, number, [1], load=PartitionLoad(100))
    return advice_of(plan(model), 1_000)


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    standing = BalancerStanding("advise", LINE, advice())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LateBalancer, "standing", property(lambda _: standing))
        with console_node() as made:
            yield made


def advised(node: ConsoleNode, *words: str) -> Result:
    return CliRunner().invoke(main, ["balance", "advice", f"http://127.0.0.1:{node.node.http_port}", *words])


def test_the_page_shows_brokers_before_and_after_and_each_move_with_its_reason(node: ConsoleNode) -> None:
    text = node.get("/balance").text
    assert LINE in text
    brokers, moves = tables_of(text)
    assert [row[0] for row in brokers.rows] == ["1", "2"]
    assert brokers.rows[0][-1] == "4 → 2"
    assert len(moves.rows) == 2
    assert all(row[1] == "1 → 2" and "broker 1 → 2" in row[3] for row in moves.rows)


def test_the_command_shows_the_advice_and_writes_a_plan(node: ConsoleNode, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    found = advised(node, "-o", str(file))
    assert found.exit_code == 0, found.output
    assert LINE in found.output
    assert found.output.count("broker 1 → 2") == 2
    assert {each.replicas for each in wanted_in(json.loads(file.read_text()))} == {(2,)}
    assert json.loads(advised(node, "--json").output) == json.loads(file.read_text())


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "ftp://127.0.0.1:9", "http://127.0.0.1:1"])
def test_the_command_refuses_another_address_in_one_line(url: str) -> None:
    found = CliRunner().invoke(main, ["balance", "advice", url])
    assert found.exit_code in (1, 2)
    assert found.output.strip().splitlines()[-1].startswith("Error: ")


def test_topics_that_a_viewer_may_not_know_are_counted_and_not_named() -> None:
    standing = BalancerStanding("advise", LINE, advice())
    shown = visible_to(standing, lambda topic: topic != "orders").advice
    assert shown is not None
    assert shown.moves == ()
    assert shown.moves_left_out == 2


def test_the_advice_of_a_long_plan_is_cut_and_counted() -> None:
    found = advice(3 * SHOWN_MOVES)
    assert len(found.moves) == SHOWN_MOVES
    assert found.moves_left_out > 0


def test_metrics_show_a_plan_and_are_absent_without_a_balancer() -> None:
    assert list(balancing.tables(None)) == []
    (table,) = balancing.tables(BalancerStanding("auto", LINE, advice(), left=3, left_bytes=70, rate=9))
    (row,) = table.rows
    assert tuple(row.values) == (2, 200, 0, 3, 70, 9)
