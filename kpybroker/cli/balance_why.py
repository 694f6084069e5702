"""``kpybroker balance why``: the reasons why one partition moves or stays, goal by goal."""

from typing import Final

import click

from kpybroker.cli.balance import BALANCED, SEARCHING, PlanningOptions, measured_by, planning
from kpybroker.cli.options import bootstrap_server, connected
from kpybroker.cli.tables import columns, printable, show_json
from kpybroker.client.client import Spot
from kpybroker.machines.balance.planner import plan
from kpybroker.machines.balance.why import partition_of, whereabouts
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes

HEADINGS: Final = ("GOAL", "NOW", "AFTER THE PLAN")


def _spot_of(_context: click.Context, _argument: click.Parameter, text: str) -> Spot:
    topic, _, number = text.rpartition("-")
    if not topic or not number.isdecimal():
        raise click.BadParameter(f"{text!r} is not such as orders-3")
    return Spot(topic, int(number))


@click.command()
@click.argument("spot", metavar="TOPIC-PARTITION", callback=_spot_of)
@planning(SEARCHING)
@bootstrap_server
def why(options: PlanningOptions, spot: Spot, server: str) -> None:
    """Say why a partition moves or stays where it is, goal by goal. Nothing moves.

    The plan is that of balance plan with the same options. For each goal, the first the most important, the table has
    the brokers of the partition now and after the plan. Below it is why no other broker takes a replica from one that
    stays above its share.
    """
    with connected(server) as client:
        measured = measured_by(client, options)
        found = plan(measured.model, options.goals(BALANCED))
        partition = partition_of(found, *spot)
        if partition is None:
            raise KafkaError(error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"partition {spot} does not exist")
    answer = whereabouts(found, partition)
    if options.as_json:
        goals = [each._asdict() for each in answer.goals]
        show_json({"partition": str(spot), "decision": answer.decision, "goals": goals, "obstacles": answer.obstacles})
        return
    click.echo(printable(answer.decision))
    click.echo(columns(HEADINGS, answer.goals))
    for each in answer.obstacles:
        click.echo(each)
