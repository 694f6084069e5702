"""kpybroker beside Apache Kafka: both warm, in one run, in alternating rounds, with the same clients and topics.

``python -m benchmarks`` runs it. It measures brokers from outside, through sockets and ``/proc``, and knows nothing of
how they work inside; only ``benchmarks.micro`` imports kpybroker's own modules. Apache Kafka comes from
``compat-tests/oracle``, which is put on the path here.
"""

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
ORACLE = str(CHECKOUT / "compat-tests")
if ORACLE not in sys.path:
    sys.path.append(ORACLE)
