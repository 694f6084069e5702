"""The sales of the tills, as a pure function of till and basket number, and the totals that must come out of them.

A till that is killed and starts again sells the very same baskets, so what is right can be known without asking Kafka.
"""

import random
from collections import defaultdict
from typing import NamedTuple

ACCOUNTS = ("ada", "barbara", "edsger", "frances", "grace", "john", "katherine", "leslie", "margaret", "tony")
MOST_PAYMENTS = 5
CANCELLED_SHARE = 0.2


class Payment(NamedTuple):
    """An amount in cents, paid to an account."""

    account: str
    cents: int


class Basket(NamedTuple):
    """Payments that are made together or not at all; of a cancelled one, none counts although all were sent."""

    payments: tuple[Payment, ...]
    cancelled: bool


class Total(NamedTuple):
    """The total of one account."""

    payments: int = 0
    cents: int = 0


Totals = dict[str, Total]


def basket(till: int, number: int) -> Basket:
    """The ``number``-th basket of a till."""
    rng = random.Random(f"{till}/{number}")
    count = rng.randrange(1, MOST_PAYMENTS + 1)
    payments = tuple(Payment(rng.choice(ACCOUNTS), rng.randrange(1, 10_000)) for _ in range(count))
    return Basket(payments, rng.random() < CANCELLED_SHARE)


def expected(tills: int, baskets: int) -> Totals:
    """The totals that must come out when every till has sold its baskets."""
    totals: Totals = defaultdict(Total)
    for till in range(tills):
        for number in range(baskets):
            sold = basket(till, number)
            for account, cents in () if sold.cancelled else sold.payments:
                before = totals[account]
                totals[account] = Total(before.payments + 1, before.cents + cents)
    return dict(totals)
