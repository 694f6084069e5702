"""The effect of each attack on an honest client: ``make hostile`` prints the table.

The client produces, reads back and asks for metadata without a pause; the attacker is a process of its own with a low
priority, so that the figures are about the broker, not about who gets the processor. Calm and attack take turns, since
the machine itself is not equally quiet all the time; of each the median round counts. How much of what remains is the
machine's, ``--control`` shows: there the same attack goes to another broker, and the client's own has nothing to do.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from attacker import Attacker, create_topic, produce
from attacks import ATTACKS, LARGE
from attacks_on_logins import ATTACKS_ON_LOGINS
from bystander import Bystander
from secured_broker import SecuredBroker
from storms import prepare
from test_floods import batch_of
from watched import PATIENCE_S

from support.targets import KpyBroker

TOPIC = "bystander"
MIB = 1024 * 1024
EVERYTHING = {**ATTACKS, **{name: attack for name, (attack, _) in ATTACKS_ON_LOGINS.items()}}
LISTENERS = {name: listener for name, (_, listener) in ATTACKS_ON_LOGINS.items()}
"""The listener that an attack is on, if it is not the honest client's."""
RULE = "-" * 105


def measure(
    broker: SecuredBroker, seconds: float, attack: str | None, attacked: SecuredBroker | None = None
) -> tuple[float, float, float]:
    """p50, p99 and the worst turn of the client in ms, in ``seconds``; another broker may be the one attacked."""
    attacker = None
    if attack is not None:
        port = str((attacked or broker).ports[LISTENERS.get(attack, "PLAINTEXT")])
        program = [sys.executable, __file__, "--attack", attack, "--port", port, "--seconds", str(seconds)]
        attacker = subprocess.Popen(program, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        time.sleep(1.5)  # until it has begun
    client = Bystander(broker.port, TOPIC, PATIENCE_S, pause_s=0.001)
    time.sleep(seconds - 2 if attacker else seconds)
    client.stop()
    if attacker is not None:
        attacker.wait(PATIENCE_S + 2 * seconds)
    if client.failure is not None:
        raise SystemExit(f"the honest client failed under {attack}: {client.failure!r}")
    turns = sorted(client.durations_s)
    return turns[len(turns) // 2] * 1e3, turns[int(len(turns) * 0.99)] * 1e3, turns[-1] * 1e3


def step_back() -> None:
    """Go behind the broker and its client, but before the rest of a busy machine where those two do (``chrt -f``)."""
    if os.sched_getscheduler(0) == os.SCHED_OTHER:
        os.nice(5)
    else:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.nice(-10)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=5.0, help="of a round")
    options.add_argument("--rounds", type=int, default=3, help="of each attack, and of the calm before each of them")
    options.add_argument("--kpybroker", type=Path, help="the command to attack, of another environment")
    options.add_argument("--only", action="append", choices=sorted(EVERYTHING))
    options.add_argument("--control", action="store_true", help="attack another broker of this machine, too")
    options.add_argument("--attack", choices=sorted(EVERYTHING), help=argparse.SUPPRESS)
    options.add_argument("--port", type=int, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.attack:
        step_back()
        EVERYTHING[chosen.attack](chosen.port, time.monotonic() + chosen.seconds)
        return
    if chosen.kpybroker:
        KpyBroker.path = chosen.kpybroker.absolute()
    with contextlib.ExitStack() as both:
        broker = both.enter_context(attackable())
        other = both.enter_context(attackable()) if chosen.control else None
        table(broker, other, chosen.seconds, chosen.rounds, chosen.only or list(EVERYTHING))


@contextlib.contextmanager
def attackable() -> Iterator[SecuredBroker]:
    """A broker with the topics that client and attacks need."""
    with (
        tempfile.TemporaryDirectory() as directory,
        SecuredBroker({"auto.create.topics.enable": "false"}, directory=Path(directory)) as broker,
    ):
        with Attacker(broker.port) as client:
            create_topic(client, TOPIC)
            create_topic(client, LARGE)
            for _ in range(40):
                produce(client, LARGE, batch_of(900_000))
            prepare(client)
        yield broker


def table(broker: SecuredBroker, other: SecuredBroker | None, seconds: float, rounds: int, attacks: list[str]) -> None:
    control = f" {'control':>8}" if other else ""
    head = f"{'attack':30} {'calm p99':>8} {'p50 ms':>8} {'p99 ms':>8} {'worst':>8} {'p99 / calm':>11}{control}"
    print(f"{head} {'peak MiB':>9} {'log lines':>10}")
    print(RULE, flush=True)
    for attack in attacks:
        position = broker.log_position()
        broker.forget_peak()
        calm, found, apart = [], [], []
        for _ in range(rounds):
            calm.append(measure(broker, seconds, None))
            found.append(measure(broker, seconds, attack))
            if other is not None:
                apart.append(measure(broker, seconds, attack, other))
        lines, peak = len(broker.log_since(position)), broker.peak_memory_bytes() / MIB
        usual, (p50, p99, _) = medians(calm)[1], medians(found)
        worst = max(turn[2] for turn in found)
        row = f"{attack:30} {usual:8.2f} {p50:8.2f} {p99:8.2f} {worst:8.1f} {p99 / usual:11.1f}"
        if apart:
            row += f" {medians(apart)[1] / usual:8.1f}"
        print(f"{row} {peak:9.0f} {lines:10}", flush=True)


def medians(rounds: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    """The figures of the middle round, each by itself."""
    p50, p99, worst = (statistics.median(figure) for figure in zip(*rounds, strict=True))
    return p50, p99, worst


if __name__ == "__main__":
    main()
