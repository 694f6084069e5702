"""The same amounts at the same times for Kafka's quota managers: the same throttle times, whatever the quotas are."""

from pathlib import Path
from random import Random
from sys import float_info

import pytest

import oracle
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.quotas.client_quotas import CLIENT_KINDS, ClientQuotas, Entity
from kpybroker.machines.quotas.mutations import MutationQuotas
from kpybroker.machines.quotas.rate import QuotaWindows
from kpybroker.machines.quotas.throttle import QuotaThrottle
from oracle.recorded import Asked, AskedAtOnce, Play

HERE = Path(oracle.__file__).parent
ROUNDS = 120
STEPS = 60
USERS = ("a", "b", "c")
CLIENTS = ("x", "y", "-")
AMOUNTS = (0.0, 1.0, 10.0, 100.0, 5_000.0, 123_456.0)
PAUSES_MS = (0, 0, 1, 7, 100, 400, 999, 1_000, 1_001, 3_000, 12_000, 60_000)


class Managers:
    """The quotas here, asked by the same words as ``QuotaOracle``."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000_000
        self.quotas: dict[Entity, dict[str, float]] = {}

    def answer(self, words: list[str]) -> str:
        command, self.now_ms = words[0], self.now_ms + int(words[1])
        if command == "begin":
            self._begin(QuotaWindows(int(words[2]), int(words[3]) * 1_000))
            return ""
        if command == "set":
            self._set(*words[2:])
            return ""
        user, client_id = words[2], words[3].replace("-", "")
        if command == "most":
            most = self.bytes.most_in_windows(user, client_id)
            return str(float_info.max if most is None else most)
        amount = float(words[4])
        if command == "bytes":
            return str(self.bytes.record(user, client_id, amount, self.now_ms))
        if command == "unrecord":
            self.bytes.note(user, client_id, -amount, self.now_ms)
            return ""
        if command == "time":
            return str(self.time.record(user, client_id, amount, self.now_ms))
        quota = self.mutations.of(user, client_id, self.now_ms, is_strict=command == "strict")
        if quota is None:
            return "accepted 0"
        try:
            quota.record(int(amount), self.now_ms)
        except KafkaError:
            return f"refused {quota.throttle_ms}"
        return f"accepted {quota.throttle_ms}"

    def _begin(self, windows: QuotaWindows) -> None:
        self.known = ClientQuotas()
        self.quotas.clear()
        produce, _, time, _ = CLIENT_KINDS
        self.bytes = QuotaThrottle(produce, self.known, windows)
        self.time = QuotaThrottle(time, self.known, windows, most_ms=windows.size_ms)
        self.mutations = MutationQuotas(self.known, windows)

    def _set(self, user: str, client_id: str, value: str) -> None:
        parts = [(kind, None if name == "*" else name) for kind, name in (("client-id", client_id), ("user", user))]
        entity: Entity = tuple(part for part in parts if part[1] != "-")
        if value == "none":
            self.quotas.pop(entity, None)
        else:
            self.quotas[entity] = dict.fromkeys(CLIENT_KINDS, float(value))
        self.known.changed([entity], self.quotas)


def lines_of(rng: Random) -> list[list[str]]:
    """A random life of some clients under changing quotas."""
    lines = [["begin", "0", str(rng.choice((2, 3, 11))), str(rng.choice((1, 1, 2)))]]
    kinds = rng.sample(("user", "client", "both"), rng.randint(1, 3))
    for _ in range(STEPS):
        pause = str(rng.choice(PAUSES_MS))
        if rng.random() < 0.15 or len(lines) < 3:
            kind = rng.choice(kinds)
            user = "-" if kind == "client" else rng.choice(("*", *USERS))
            client_id = "-" if kind == "user" else rng.choice(("*", "x", "y"))
            value = rng.choice(("none", "0.5", "1.0", "10.0", "1000.0", "50000.0"))
            lines.append(["set", pause, user, client_id, value])
            continue
        command = rng.choice(("bytes", "bytes", "bytes", "time", "strict", "permissive", "most", "unrecord"))
        amount = rng.choice(AMOUNTS)
        lines.append([command, pause, rng.choice(USERS), rng.choice(CLIENTS), str(amount)])
    return lines


def compare(kafka: Asked, rounds: int) -> None:
    rng = Random(20_261_124)
    lines = [line for _ in range(rounds) for line in lines_of(rng)]
    here = Managers()
    ours = [here.answer(line) for line in lines]
    kafkas = kafka.ask_for_line(*("\t".join(line) for line in lines)).split("\n")[:-1]
    assert len(kafkas) == len(ours)
    waits = 0
    for number, (line, kafka, our) in enumerate(zip(lines, kafkas, ours, strict=True)):
        if line[0] == "most":
            assert float(kafka) == pytest.approx(float(our)), (number, line)
        else:
            assert kafka == our, (number, lines[max(0, number - 60) : number + 1])
        waits += our not in ("", "0", "accepted 0")
    assert waits > len(lines) / 10


def kafkas() -> Asked:
    return AskedAtOnce(HERE / "QuotaOracle.java")


@pytest.mark.java
def test_throttle_times_are_kafkas() -> None:
    compare(kafkas(), ROUNDS)


def test_throttle_times_are_those_that_kafka_had(recorded: Play) -> None:
    compare(recorded(kafkas), ROUNDS // 2)
