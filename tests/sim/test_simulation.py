"""The simulation of whole nodes: seeds, that seeds repeat, and that planted bugs have their places.

Each runs in processes of its own, which have no clock but the simulated one.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from .kind import PLAIN, SHARING, TIERING, WORLDS, ZOOKEEPER
from .mutants import verdicts
from .mutations import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(__file__).with_name("seeds.txt")
QUICK_SEEDS = {SHARING: "0", TIERING: "2"}
"""Seeds of worlds that take little time."""
SEEN_QUICKLY = {
    "vote said before it is saved",
    "quorum commits what one follower has",
    "acks=all answered at once",
    "follower takes over the high watermark beyond its log",
    "last stable offset ignores open transactions",
    "decisions are remembered although ACLs have changed",
    "a request in an envelope is authorised for the broker that sent it",
    "a manifest does not name aborted transactions",
    "an election keeps the leader epoch",
    "objects are written before their segment is announced",
}
"""Planted bugs that many seeds find; `make sim-mutants` is for all."""


def simulating(*arguments: str, hash_seed: str = "0") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.sim", "run", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def reported_by(processes: "Sequence[subprocess.Popen[str]]") -> list[str]:
    """The output of each, once all have ended well."""
    reported = [process.communicate()[0] for process in processes]
    for process, text in zip(processes, reported, strict=True):
        assert process.returncode == 0, text
    return reported


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 3])
def test_whatever_happens_to_nodes_what_must_hold_holds(nodes: int) -> None:
    reported_by([simulating("--nodes", str(nodes), "--seeds", each) for each in ("0-2", "3-5")])


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 3])
def test_in_any_simulation_acls_hold_and_muted_clients_are_served_again(nodes: int) -> None:
    reported_by([simulating("--nodes", str(nodes), "--seeds=", "--guarded", each) for each in ("0-1", "2-3")])


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 3])
def test_whatever_happens_readers_of_lent_files_get_what_a_consumer_got(nodes: int) -> None:
    reported_by([simulating("--nodes", str(nodes), "--seeds=", "--lending", each) for each in ("0", "1")])


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 3])
def test_whatever_happens_no_partition_has_two_members_and_all_are_read(nodes: int) -> None:
    reported_by([simulating("--nodes", str(nodes), "--seeds=", "--beating", each) for each in ("0", "1")])


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 3])
def test_whatever_happens_no_task_is_owned_twice_and_no_shared_record_is_forgotten(nodes: int) -> None:
    reported_by([simulating("--nodes", str(nodes), "--seeds=", "--streaming", "0-1", "--sharing", "0")])


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 3])
def test_whatever_happens_while_flushes_take_long_no_directory_fails_and_nothing_is_lost(nodes: int) -> None:
    reported_by([simulating("--nodes", str(nodes), "--seeds=", "--flushing", each) for each in ("0-1", "2-3")])


@pytest.mark.slow
def test_whatever_happens_while_programs_change_no_node_is_given_a_level_that_it_does_not_know() -> None:
    reported_by([simulating("--nodes", "3", "--seeds=", "--levelling", each) for each in ("0-1", "2-3")])


@pytest.mark.slow
def test_whatever_happens_to_nodes_and_their_store_tiered_records_are_read_and_nothing_is_left_over() -> None:
    reported_by([simulating("--nodes", "3", "--seeds=", "--tiering", each) for each in ("0", "1")])


@pytest.mark.slow
def test_brokers_that_no_node_hears_are_replaced_within_three_seconds_and_no_others_are_fenced() -> None:
    reported_by([simulating("--seeds=", "--suspicion", each) for each in ("0-11", "12-23")])


@pytest.mark.slow
def test_whatever_happens_to_brokers_and_zookeeper_znodes_and_brokers_agree_and_nothing_is_lost() -> None:
    reported_by([simulating("--nodes", "3", "--seeds=", "--zookeeper", each) for each in ("0-1", "2-3")])


def test_a_world_of_its_own_kind_is_the_same_history_whatever_hashes_are() -> None:
    worlds = [world for world in WORLDS if world not in (PLAIN, TIERING, ZOOKEEPER)]
    assert len(repeated("1", worlds)) == len(worlds)


def test_a_world_with_tiered_topics_is_the_same_history_whatever_hashes_are() -> None:
    assert len(repeated("3", [TIERING])) == 1


def test_a_world_with_zookeeper_is_the_same_history_whatever_hashes_are() -> None:
    assert len(repeated("3", [ZOOKEEPER])) == 1


def repeated(nodes: str, worlds: Sequence[str]) -> list[Any]:
    """The digests of one seed of each world, after a check that they do not depend on hashes."""
    seeds = [word for world in worlds for word in (f"--{world}", QUICK_SEEDS.get(world, "2"))]
    options = ("--nodes", nodes, "--seeds=", *seeds, "--digests")
    one, other = reported_by([simulating(*options, hash_seed=each) for each in ("1", "2")])
    digests = [json.loads(line) for line in one.splitlines()]
    assert digests == [json.loads(line) for line in other.splitlines()]
    return digests


def test_the_same_seed_is_the_same_history_whatever_hashes_and_addresses_are_and_whatever_ran_before() -> None:
    one, other, alone = reported_by(
        [
            simulating("--nodes", "3", "--seeds", "5-7", "--digests", hash_seed="1"),
            simulating("--nodes", "3", "--seeds", "6-7", "--digests", hash_seed="2"),
            simulating("--nodes", "3", "--seeds", "7", "--digests", hash_seed="3"),
        ]
    )
    histories = [json.loads(line) for line in one.splitlines()[1:]]
    assert histories == [json.loads(line) for line in other.splitlines()]
    assert histories[-1:] == [json.loads(line) for line in alone.splitlines()]
    assert len({history[2] for history in histories}) == len(histories)


def test_seeds_that_once_failed_pass(pytestconfig: pytest.Config) -> None:
    every = int(pytestconfig.getoption("--kept-seeds"))
    kept = [line.split("#")[0].split() for line in KEPT.read_text().splitlines() if line and not line.startswith("#")]
    chosen: dict[str, dict[str, list[str]]] = {}
    for nodes, world, seed in kept[::every]:
        chosen.setdefault(nodes, {"seeds": []}).setdefault(world if world in WORLDS else "seeds", []).append(seed)
    assert sum(len(seeds) for worlds in chosen.values() for seeds in worlds.values()) == len(kept[::every])
    for nodes, worlds in chosen.items():
        reported_by([simulating("--nodes", nodes, *(f"--{key}={','.join(seeds)}" for key, seeds in worlds.items()))])


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_a_planted_bug_has_a_place(mutation: Mutation) -> None:
    assert mutation.has_place(ROOT)


def test_planted_bugs_are_found() -> None:
    chosen = [mutation for mutation in MUTATIONS if mutation.name in SEEN_QUICKLY]
    missed = [(each.mutation.name, each.line) for each in verdicts(chosen, "0-9", 2) if each.catch is None]
    assert len(chosen) == len(SEEN_QUICKLY)
    assert not missed
