"""Topologies of streams applications, good and bad ones, as a client sends them."""

from collections.abc import Mapping
from random import Random

from kpywire.messages.streams_group_heartbeat import CopartitionGroup, KeyValue, Subtopology, TopicInfo, Topology


def topic(name: str, partitions: int = 0, configs: Mapping[str, str] | None = None) -> TopicInfo:
    return TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=0,
        topic_configs=[KeyValue(key=key, value=value) for key, value in (configs or {}).items()],
    )


def subtopology(
    name: str,
    sources: tuple[str, ...] = (),
    *,
    repartition: tuple[TopicInfo, ...] = (),
    sinks: tuple[str, ...] = (),
    changelogs: tuple[TopicInfo, ...] = (),
    together: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (),
) -> Subtopology:
    """``together`` are the copartition groups: indexes of sources and of repartition topics."""
    return Subtopology(
        subtopology_id=name,
        source_topics=list(sources),
        source_topic_regex=[],
        state_changelog_topics=list(changelogs),
        repartition_sink_topics=list(sinks),
        repartition_source_topics=list(repartition),
        copartition_groups=[
            CopartitionGroup(
                source_topics=list(of_sources), source_topic_regex=[], repartition_source_topics=list(of_repartition)
            )
            for of_sources, of_repartition in together
        ],
    )


def topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(subtopologies))


COMPACTED = {"cleanup.policy": "compact", "retention.ms": "-1"}
STATELESS = topology(subtopology("0", ("t",)))
STATEFUL = topology(subtopology("0", ("t",), changelogs=(topic("a-changelog", configs=COMPACTED),)))
WORD_COUNT = topology(
    subtopology("0", ("t",), sinks=("a-repartition",)),
    subtopology("1", repartition=(topic("a-repartition"),), changelogs=(topic("a-changelog", configs=COMPACTED),)),
)
JOINED = topology(
    subtopology("0", ("t", "u"), changelogs=(topic("a-changelog"), topic("b-changelog")), together=(((0, 1), ()),))
)
JOINED_WITH_REPARTITION = topology(
    subtopology("0", ("t",), sinks=("a-repartition", "b-repartition")),
    subtopology("1", ("u",), repartition=(topic("a-repartition"),), together=(((0,), (0,)),), sinks=("c-repartition",)),
    subtopology(
        "2",
        repartition=(topic("b-repartition"), topic("c-repartition")),
        together=(((), (0, 1)),),
        changelogs=(topic("a-changelog"),),
    ),
)
FIXED = topology(
    subtopology("0", ("t",), sinks=("a-repartition", "b-repartition")),
    subtopology(
        "1",
        repartition=(topic("a-repartition", 3), topic("b-repartition")),
        together=(((), (0, 1)),),
        changelogs=(topic("a-changelog"),),
    ),
)
FIXED_WITH_SOURCE = topology(
    subtopology("0", ("t",), sinks=("a-repartition",)),
    subtopology("1", ("u",), repartition=(topic("a-repartition", 3),), together=(((0,), (0,)),)),
)
LOOP = topology(
    subtopology("0", repartition=(topic("b-repartition"),), sinks=("a-repartition",)),
    subtopology("1", repartition=(topic("a-repartition"),), sinks=("b-repartition",)),
)
NEVER_WRITTEN = topology(subtopology("0", ("t",), repartition=(topic("a-repartition"),)))
WITHOUT_SOURCES = topology(subtopology("0", ("t",)), subtopology("1", changelogs=(topic("a-changelog"),)))
TWICE = topology(subtopology("0", ("t",)), subtopology("0", ("u",)))
MANY_SOURCES = topology(
    subtopology("0", ("t", "u", "v", "w"), changelogs=tuple(topic(f"{name}-changelog") for name in "abcdef")),
    *(subtopology(str(number), ("t",)) for number in range(1, 13)),
)

GOOD = (STATELESS, STATEFUL, WORD_COUNT, JOINED, JOINED_WITH_REPARTITION, FIXED, FIXED_WITH_SOURCE, MANY_SOURCES)
BAD = (LOOP, NEVER_WRITTEN, WITHOUT_SOURCES, TWICE)


def random_topology(rng: Random) -> Topology:
    """Subtopologies that read and write topics of one another, some with topics that are read together."""
    count = rng.randrange(1, 6)
    names = rng.sample([str(number) for number in range(30)], count)
    wires = [f"r{number}" for number in range(rng.randrange(5))]
    readers = {wire: rng.randrange(count) for wire in wires}
    made = []
    for at, name in enumerate(names):
        sources = tuple(rng.sample(("t", "u", "v"), rng.choice((0, 1, 1, 2))))
        repartition = tuple(topic(wire, rng.choice((0, 0, 0, 2, 3))) for wire in wires if readers[wire] == at)
        inputs = [((index,), ()) for index in range(len(sources))] + [
            ((), (index,)) for index in range(len(repartition))
        ]
        chosen = rng.sample(inputs, rng.randrange(len(inputs) + 1)) if inputs and rng.random() < 0.5 else []
        together = (tuple(sum((each[part] for each in chosen), ()) for part in range(2)),) if chosen else ()
        made.append(
            subtopology(
                name,
                sources,
                repartition=repartition,
                sinks=tuple(rng.sample(wires, rng.randrange(len(wires) + 1))),
                changelogs=tuple(topic(f"{name}-{each}-changelog") for each in range(rng.randrange(3))),
                together=together,  # type: ignore[arg-type]
            )
        )
    return topology(*made)
