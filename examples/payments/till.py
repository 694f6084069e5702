"""A till: ``python -m examples.payments.till``. It may be killed at any moment and started again.

Each basket is one transaction: its payments, and the number of the next basket in a topic of its own. Both count or
neither does, so a till that starts again reads how far it came and goes on there: no payment is lost, none made twice.
Any error ends the program; its supervisor starts it again.
"""

import json
import sys
import time

import click
from kafka import KafkaProducer
from kafka.errors import KafkaError

from examples.payments import PAYMENTS_TOPIC, PROGRESS_TOPIC
from examples.payments.baskets import basket
from examples.payments.reading import records

TRANSACTION_TIMEOUT_MS = 10_000


def next_basket(bootstrap_servers: str, till: int) -> int:
    """The number after the last basket that was sold, by what committed transactions say. Raises KafkaError."""
    number = 0
    for record in records(bootstrap_servers, PROGRESS_TOPIC, "read_committed", partition=till):
        number = int(record.value)
    return number


def sell(producer: KafkaProducer, till: int, number: int) -> None:
    """One basket, one transaction. Raises KafkaError."""
    sold = basket(till, number)
    producer.begin_transaction()
    for account, cents in sold.payments:
        payment = {"account": account, "cents": cents, "till": till, "basket": number}
        producer.send(PAYMENTS_TOPIC, json.dumps(payment).encode(), key=account.encode())
    producer.send(PROGRESS_TOPIC, str(number + 1).encode(), key=b"next", partition=till)
    if sold.cancelled:
        producer.flush()  # so that the payments are really there, for everybody who reads uncommitted
        producer.abort_transaction()
    else:
        producer.commit_transaction()


@click.command()
@click.option("--bootstrap-server", required=True)
@click.option("--till", type=int, required=True, help="Its number, from 0.")
@click.option("--baskets", type=int, required=True, help="How many to sell in all.")
@click.option("--per-second", type=float, default=10.0, show_default=True)
def main(bootstrap_server: str, till: int, baskets: int, per_second: float) -> None:
    """Sell what is left to be sold."""
    try:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap_server,
            transactional_id=f"till-{till}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        producer.init_transactions()  # first of all: it ends what a killed predecessor left open
        for number in range(next_basket(bootstrap_server, till), baskets):
            sell(producer, till, number)
            time.sleep(1 / per_second)
    except KafkaError as problem:
        sys.exit(f"till {till}: {problem!r}")


if __name__ == "__main__":
    main()
