"""Generated sets of options for a Kafka source of Spark: right ones, odd spellings, and mistakes."""

import json
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from support.spark_option_topics import EARLY_MS, LATE_MS, PARTITIONS

Options = dict[str, str]
Offsets = dict[str, dict[str, int]]

BATCH: Final = "batch"
STREAM: Final = "stream"
PATTERNS: Final = (
    "orders", "^orders$", "ord.*", "rders", "orders[.]eu", "eu$", "paid-|empty", "(?i)ORDERS", "nothing", "", "  ", "(",
    "[", ".*", "^(?!paid).*orders", r"\bpaid\b", "o{2}", r"^orders\z", "*", " empty ",
)  # fmt: skip
NUMBERS: Final = (
    "0", "-1", "1", "2", "3", "5", "100", "+4", " 4", "4 ", "1_0", "4.0", "1e3", "", "four", "٣", "200",
    "2147483648", "9223372036854775807", "9223372036854775808",
)  # fmt: skip
FLAGS: Final = ("true", "false", "TRUE", "False", " true", "false ", "yes", "1", "0", "", "t")
WORDS: Final = (
    "earliest", "latest", "EARLIEST", "Latest", " earliest ", "latest ", "first", "", " ", "none", "0", "-1",
)  # fmt: skip
WRONG_JSON: Final = (
    "{", "{}", "[]", "null", '"earliest"', '{"orders":[0]}', '{"orders":{"zero":1}}',
    '{"orders":{"0":1,"1":2},}', '{"orders":{"0":3,"0":5,"1":0}}', '{"orders":null}',
    '{"orders":{"0":-3,"1":-2}}', "{'orders':{'0':1,'1':0}}",
    '{"orders":{"0":1,"1":0}} x', '{"orders":{" 0":1,"1":0}}',
    '{"orders":{"00":1,"1":0}}', '{"orders":{"+0":1,"1":0}}',

)  # fmt: skip
WRONG_ASSIGN: Final = (
    "", "{}", "[]", "{", '{"orders":[]}', '{"orders":[0,0,1]}', '{"orders":[-1]}', '{"orders":0}',
    '{"orders":[0],"empty":[]}', " {\"orders\":[0]} ", '{"orders":[0]}]',
    "x", '{"orders":[7]}',
    '{"unknown":[0]}',
)  # fmt: skip
TIMES: Final = (
    *map(str, (EARLY_MS, EARLY_MS + 3, EARLY_MS + 7, LATE_MS - 1, LATE_MS, LATE_MS + 1, LATE_MS + 10_000_000_000, 0)),
    "-1", "-2", "-3", "-4", "1.5", "", "now", f" {EARLY_MS + 4} ", f"+{EARLY_MS}", "9223372036854775808",
)  # fmt: skip
TYPOS: Final = {"startingOffset": "earliest", "failOnDataLos": "maybe", "kafka.group.idd": "x", "subscribes": "orders"}


DELAYS: Final = ("15m", "1h", "0", "500ms", "2", "-1s", "soon", "", "1 m", "1.5h", "3600000us", "1d")
LEVELS: Final = (*["read_committed"] * 6, "READ_COMMITTED", "read_uncommitted", "x", "", " read_committed")


class OptionSet(NamedTuple):
    """The options of one query, without the address of the broker."""

    kind: str
    """BATCH or STREAM."""
    options: Options


def option_sets(seed: int, count: int) -> list[OptionSet]:
    """The first ``count`` sets of a seed, every second with one odd value alone."""
    alone = [each for kind in (BATCH, STREAM) for each in _alone(kind)]
    Random(seed).shuffle(alone)
    combined = [_option_set(Random(f"{seed} {number}"), number) for number in range(count)]
    return [alone[at // 2] if at % 2 and at // 2 < len(alone) else each for at, each in enumerate(combined)]


def _alone(kind: str) -> list[OptionSet]:
    """Every value of every option, without other odd ones."""
    start = {"startingOffsets": "earliest"}
    topic = {"subscribe": "orders", "includeHeaders": "true"}
    found = [{**topic, **start, name: value} for _, name, values in _others(kind) for value in values]
    found += [{"assign": value, **start} for value in WRONG_ASSIGN]
    found += [{"subscribePattern": value, **start} for value in PATTERNS]
    for end in ("starting", "ending") if kind == BATCH else ("starting",):
        found += [{**topic, f"{end}Offsets": value} for value in (*WORDS, *WRONG_JSON)]
        found += [{**topic, f"{end}Timestamp": value} for value in TIMES]
    times = [value for value in TIMES if value.lstrip("-").isdigit()]
    found += [{"subscribe": "empty", "startingOffsetsByTimestamp": f'{{"empty":{{"0":{value}}}}}'} for value in times]
    found += [{"subscribe": "three", **start, "maxRecordsPerPartition": "1", "minPartitions": str(n)} for n in (1, 9)]
    unique = {json.dumps(each): OptionSet(kind, each) for each in found}
    return list(unique.values())


def _option_set(random: Random, number: int) -> OptionSet:
    kind = STREAM if number % 4 == 3 else BATCH
    options, chosen = _topics(random)
    if random.random() < 0.75:
        options |= _bound(random, kind, "starting", chosen)
    if random.random() < (0.6 if kind == BATCH else 0.05):
        options |= _bound(random, kind, "ending", chosen)
    if kind == STREAM and random.random() < 0.7 and not any(name.startswith("starting") for name in options):
        options["startingOffsets"] = "earliest"
    for likely, name, values in _others(kind):
        if random.random() < likely / (1 if len(options) < 3 else 2):
            options[name] = random.choice(values)
    if random.random() < 0.08:
        name = random.choice(sorted(TYPOS))
        options[name] = TYPOS[name]
    if random.random() < 0.2:
        options = {random.choice((str.upper, str.lower, str.swapcase))(name): value for name, value in options.items()}
    return OptionSet(kind, options)


def _others(kind: str) -> tuple[tuple[float, str, tuple[str, ...]], ...]:
    """How likely each of the other options is, and its values."""
    limits = NUMBERS[2:] if kind == STREAM else NUMBERS  # a stream with a limit of 0 is refused by ours alone
    likely = 0.15 if kind == STREAM else 0.05
    return (
        (0.5, "failOnDataLoss", ("true", "false", "false") * 4 + FLAGS),
        (0.15, "minPartitions", NUMBERS),
        (0.15, "maxRecordsPerPartition", NUMBERS),
        (likely, "maxOffsetsPerTrigger", limits),
        (likely, "minOffsetsPerTrigger", limits),
        (0.05, "maxTriggerDelay", DELAYS),
        (0.3, "includeHeaders", ("true", "true", "false", *FLAGS)),
        (0.3, "kafka.isolation.level", LEVELS),
        (0.1, "startingOffsetsByTimestampStrategy", ("error", "latest", "LATEST", " latest", "none", "")),
        (0.05, "kafka.group.id", ("g", "")),
        (0.05, "groupIdPrefix", ("g", "")),
        (0.05, "kafka.max.poll.records", ("1", "5")),
        (0.05, "kafka.fetch.max.bytes", ("1", "0", "-1", "x", " 5000 ")),
        (0.04, "kafka.auto.offset.reset", ("earliest", "")),
        (0.02, "kafka.enable.auto.commit", ("false",)),
        (0.02, "kafka.key.deserializer", ("x",)),
        (0.02, "kafka.interceptor.classes", ("x",)),
        (0.02, "kafkaConsumer.pollTimeoutMs", ("-1", "x", "2000")),
        (0.02, "fetchOffset.numRetries", ("2", "x")),
    )


def _topics(random: Random) -> tuple[Options, dict[str, int]]:
    """The option that names topics, and their numbers of partitions."""
    way = random.random()
    names = sorted(PARTITIONS)
    if way < 0.5:
        chosen = random.sample(names, random.choice((1, 1, 1, 2, 3)))
        text = random.choice((",", ", ", ",,", " , ")).join(chosen)
        if random.random() < 0.12:
            wrong = ("", " ", ",", "unknown", f"{text},unknown", f"{text},{chosen[0]}", "bad name", "a" * 250)
            text = random.choice(wrong)
        return {"subscribe": text}, {name: PARTITIONS[name] for name in chosen}
    if way < 0.7:
        pattern = random.choice(PATTERNS)
        matched = [name for name in names if pattern.strip(" ^$") in name] or names
        return {"subscribePattern": pattern}, {name: PARTITIONS[name] for name in matched}
    if way < 0.95:
        chosen = random.sample(names, random.choice((1, 2)))
        text = json.dumps({name: list(range(PARTITIONS[name])) for name in chosen})
        if random.random() < 0.35:
            text = random.choice(WRONG_ASSIGN)
            chosen = ["orders"]
        return {"assign": text}, {name: PARTITIONS[name] for name in chosen}
    both = {"subscribe": "orders", "subscribePattern": "orders", "assign": '{"orders":[0]}'}
    count = random.choice((0, 2, 3))
    return {name: both[name] for name in random.sample(sorted(both), count)}, {"orders": 2}


def _bound(random: Random, kind: str, end: str, chosen: dict[str, int]) -> Options:
    way = random.random()
    if way < 0.3:
        right = ("earliest", "earliest") if end == "starting" else ("latest", "latest")
        return {f"{end}Offsets": random.choice(right * 4 + WORDS)}
    if way < 0.7:
        return {f"{end}Offsets": _json(random, chosen, lambda: _offset(random, end))}
    if way < 0.85:
        found = {f"{end}Timestamp": random.choice(TIMES[:5] * 2 + TIMES)}
    else:
        times = [int(time) for time in (*TIMES[:8] * 3, *TIMES[8:12])]
        found = {f"{end}OffsetsByTimestamp": _json(random, chosen, lambda: random.choice(times))}
    if kind == STREAM and end == "ending":
        found.pop("endingTimestamp", None)  # Spark's source ignores it, and a stream would not end there
    if random.random() < 0.2:
        found[f"{end}Offsets"] = random.choice(("earliest", "latest", "bad"))
    if random.random() < 0.5:
        found["startingOffsetsByTimestampStrategy"] = random.choice(("latest", "error"))
    return found


def _offset(random: Random, end: str) -> int:
    usual = (-2, 0, 3, 5, 7) if end == "starting" else (-1, 7, 9, 12, 20)
    return random.choice(usual * 4 + (-1, -2, -3, 0, 4, 12, 19, 20, 21, 25, 400))


def _json(random: Random, chosen: dict[str, int], number: Callable[[], int]) -> str:
    if random.random() < 0.12:
        return random.choice(WRONG_JSON)
    found: Offsets = {name: {str(part): number() for part in range(count)} for name, count in chosen.items()}
    if random.random() < 0.12:
        name = random.choice(sorted(found))
        match random.choice(("missing", "more", "unknown", "none")):
            case "missing":
                found[name].pop("0")
            case "more":
                found[name]["9"] = 0
            case "unknown":
                found["unknown"] = {"0": 0}
            case _:
                del found[name]
    return json.dumps(found)
