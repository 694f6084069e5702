"""Descriptions of topologies as bytes, and back: nothing but what a node of its type cannot have is lost."""

import contextlib
import gc
import sys
from collections.abc import Generator, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.requests.serving.topology_descriptions import InvalidDescription, TooLarge, decoded, encoded
from kpywire.errors import Malformed
from kpywire.messages.streams_group_topology_description_update import TopologyDescriptionSubtopology
from support.streams_requests import PROCESSOR, SINK, SOURCE, describing, node

T = TypeVar("T")
MOST_BYTES = 1 << 20
NAMES = st.text(max_size=8)
NODES = st.builds(
    lambda name, kind, successors, topics, stores, topic: node(
        name, kind, *successors, source_topics=topics, stores=stores, sink_topic=topic
    ),
    NAMES,
    st.sampled_from((SOURCE, PROCESSOR, SINK)),
    st.lists(NAMES, max_size=4),
    st.lists(NAMES, max_size=4),
    st.lists(NAMES, max_size=4),
    st.none() | NAMES,
)


def run(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def once(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


@given(st.lists(NODES, max_size=5))
def test_a_description_is_shown_as_it_was_sent_with_each_name_once(nodes: list[Any]) -> None:
    shown = run(decoded(run(encoded(describing("g", "m", nodes=nodes), MOST_BYTES))))
    (subtopology,) = shown.subtopologies
    assert subtopology.subtopology_id == "0"
    for sent, found in zip(nodes, subtopology.nodes, strict=True):
        kind = sent.node_type
        assert (found.name, found.node_type, found.successors) == (sent.name, kind, once(sent.successors))
        assert found.source_topics == (once(sent.source_topics) if kind == SOURCE else [])
        assert found.stores == (once(sent.stores) if kind == PROCESSOR else [])
        assert found.sink_topic == (sent.sink_topic if kind == SINK else None)


@given(st.lists(NODES, max_size=5))
def test_the_names_of_the_group_and_its_member_are_not_kept(nodes: list[Any]) -> None:
    assert run(encoded(describing("g", "m", nodes=nodes), MOST_BYTES)) == run(
        encoded(describing("h", "n", nodes=nodes), MOST_BYTES)
    )


@given(st.integers(-128, 127).filter(lambda kind: kind not in (SOURCE, PROCESSOR, SINK)))
def test_a_node_of_another_type_is_refused(kind: int) -> None:
    with pytest.raises(InvalidDescription, match=f"^Unknown topology node type: {kind}$"):
        run(encoded(describing("g", "m", nodes=[node("n", kind)]), MOST_BYTES))


@pytest.mark.parametrize(("first", "second"), [(PROCESSOR, SOURCE), (SOURCE, SOURCE), (SINK, PROCESSOR)])
def test_a_global_store_is_a_source_and_a_processor(first: int, second: int) -> None:
    with pytest.raises(InvalidDescription, match=r"^Global store must be composed of a source and a processor node\.$"):
        run(encoded(describing("g", "m", stores=[(node("n", first), node("o", second))]), MOST_BYTES))


@given(st.lists(NODES, max_size=5))
def test_only_what_is_larger_than_the_bound_is_too_large(nodes: list[Any]) -> None:
    request = describing("g", "m", nodes=nodes)
    size = len(run(encoded(request, MOST_BYTES)))
    assert len(run(encoded(request, size))) == size
    with pytest.raises(TooLarge):
        run(encoded(request, len(nodes)))


@given(st.binary(max_size=80))
def test_bytes_that_are_no_description_are_malformed(kept: bytes) -> None:
    with contextlib.suppress(Malformed):
        run(decoded(kept))


@pytest.mark.parametrize(("most_bytes", "fits"), [(MOST_BYTES, True), (20_000, False)])
def test_the_copy_of_many_subtopologies_is_freed_in_steps(most_bytes: int, fits: bool) -> None:
    request = describing("g", "m")
    description = request.topology_description
    description.subtopologies = [TopologyDescriptionSubtopology(subtopology_id="s", nodes=[]) for _ in range(20_000)]
    steps = encoded(request, most_bytes)
    most_freed, too_large = 0, False
    gc.disable()
    try:
        blocks = sys.getallocatedblocks()
        for _ in steps:
            most_freed, blocks = max(most_freed, blocks - sys.getallocatedblocks()), sys.getallocatedblocks()
    except TooLarge:
        too_large = True
    finally:
        most_freed = max(most_freed, blocks - sys.getallocatedblocks())
        gc.enable()
    assert too_large is not fits
    assert 0 < most_freed < 1_000
