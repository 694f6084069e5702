"""Payments on kpybroker: transactions in, PySpark with a checkpoint, exact totals while everything is killed at random.

Tills pay in transactions (`till`), Spark sums up by account (`balances`), and `supervisor` kills and restarts them and
the broker. What must come out is worked out from nothing but the tills' numbers (`baskets`).
"""

PAYMENTS_TOPIC = "payments"
PROGRESS_TOPIC = "till-progress"
BALANCES_TOPIC = "balances"
