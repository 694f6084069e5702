"""Compiled wheels: the modules that every produced record passes, compiled by mypyc where ``KPYBROKER_COMPILE=1`` asks.

Without it the wheel is pure Python, and a development install always is, so that no compiled module ever hides the
source somebody edits. A compiled wheel holds the same sources and behaves the same; ``kpybroker --version`` says which
form it is. It fits one platform and one version of Python. Nothing falls back silently: what was asked for is built, or
the build fails and says why.

A module is compiled where a row of the benchmarks shows that it saves time: `MODULES` names it, and ``python -m
benchmarks.compiled`` what each module takes of the rows. What is called once for a connection, a login, a producer or a
change of the metadata is not compiled. CPU of one Produce request in the dispatcher, and of the
check alone of 150 records with keys of 80 B and a header, by ``python -m benchmarks.micro handling batches``, in µs
(x86-64, Python 3.11):

===========================================  =====  ===========  ===============  ============
compiled                                     213 B  50 of 213 B  150 of any size  keyed, check
===========================================  =====  ===========  ===============  ============
nothing                                        9.3          242             85.7           188
walk, skim and varint of kpywire               8.4          211             20.9            16
these, produce of kpywire, and kpybroker's     7.5          203             19.9            16
these, log and segment of kpystorage           7.4          197             19.8            15
all: since small batches are bytes             5.7          140             19.6            15
===========================================  =====  ===========  ===============  ============

The last line is of a later day, when the line before it read 7.2, 196 and 19.5: a batch whose type is known to be
bytes is taken apart without an object for each bound, the place of an append is an object of a compiled class, and so
is the file that is written to. Where an attribute is set, compiled code releases the old value first: what a
destructor or another thread may look at is forgotten before it is released (`real_file`).

Dispatcher, connections and poller save a tenth of the CPU of a request that comes alone (row round-trip) and 4 % of
those that come together (row small-requests). The listener is compiled for its fields, which connections read for
each request: with the types of remembered calls that is another eighth of small-requests. The way of a coordinator's
decision into its log, from journal to record, a quarter of a transaction (row transactions-100-1). Groups are
compiled for the rows commit-50 and rebalance-1000, Fetch and what it looks up in a log for drain, what controllers
decide on topics for topics-1000 (an eighth). Channels with TLS are compiled for the row tls-small-requests. All forms
of an answer to Fetch are compiled, since calls to one of several classes are direct only if all of them are. Logs are
compacted in less than half the time (python -m benchmarks.compaction). The way from a start to open logs, from the
records of partitions to recovery, is compiled for restart-partitions-1000: a fifth of its CPU.

Only a compiled class inherits from a compiled one. So the mutes of connections and the clock of tests are compiled too,
since they inherit from answers and from the scheduler (a test checks).

mypyc evaluates the bounds of a slice twice, so in these modules they call nothing that has an effect (a test checks).
A loop over ``_`` makes an object for each number, since mypy does not say what that name is; integers of more than 62
bits are objects, also where they are only compared with.

Invariant: no file of the checkout is touched; compiling happens in a temporary copy.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ASKED_BY = "KPYBROKER_COMPILE"
COMPILERS = ["mypy>=2.4", "setuptools>=65"]
PACKAGES = ("kpybroker", "pyspark_kpybroker", "wire/kpywire", "storage/kpystorage")
MODULES = {
    "kpybroker.machines.answered_errors": "small-requests-50",
    "kpybroker.runtime.calls.call": "round-trip",
    "kpybroker.runtime.calls.client": "round-trip",
    "kpybroker.runtime.calls.deferred": "transactions-100-1",
    "kpybroker.runtime.calls.pending": "round-trip",
    "kpybroker.runtime.calls.principal": "round-trip",
    "kpybroker.config.stored": "small-requests-50",
    "kpybroker.machines.controller.state": "topics-1000",
    "kpybroker.machines.controller.topics": "topics-1000",
    "kpybroker.machines.coordination.decision": "commit-50",
    "kpybroker.runtime.counters": "round-trip",
    "kpybroker.requests.dispatching.dispatcher": "round-trip",
    "kpybroker.requests.dispatching.login": "scram-logins",
    "kpybroker.requests.dispatching.repeated": "small-requests-50",
    "kpybroker.requests.dispatching.replies": "small-requests-50",
    "kpybroker.requests.dispatching.served": "small-requests-50",
    "kpybroker.runtime.fairness.account": "round-trip",
    "kpybroker.runtime.fairness.aside": "transactions-100-1",
    "kpybroker.runtime.fairness.debtor": "round-trip",
    "kpybroker.runtime.fairness.line": "topics-1000",
    "kpybroker.runtime.fairness.slices": "topics-1000",
    "kpybroker.runtime.fairness.trait": "round-trip",
    "kpybroker.runtime.fairness.turn": "round-trip",
    "kpybroker.machines.fetch.remembered": "fetch-incremental",
    "kpybroker.machines.fetch.session": "fetch-incremental",
    "kpybroker.machines.fetch.sessions": "fetch-incremental",
    "kpybroker.machines.groups.beats": "rebalance-1000",
    "kpybroker.machines.groups.classic.asleep": "rebalance-1000",
    "kpybroker.machines.groups.classic.classic_group": "rebalance-1000",
    "kpybroker.machines.groups.classic.heartbeat": "rebalance-1000",
    "kpybroker.machines.groups.classic.join": "rebalance-1000",
    "kpybroker.machines.groups.classic.member": "rebalance-1000",
    "kpybroker.machines.groups.classic.rebalance": "rebalance-1000",
    "kpybroker.machines.groups.classic.responses": "rebalance-1000",
    "kpybroker.machines.groups.classic.snapshot": "rebalance-1000",
    "kpybroker.machines.groups.classic.sync": "rebalance-1000",
    "kpybroker.machines.groups.commit_bytes": "commit-50",
    "kpybroker.machines.groups.consumer.consumer_group": "settle-20",
    "kpybroker.machines.groups.coordinator": "commit-50",
    "kpybroker.machines.groups.decision": "commit-50",
    "kpybroker.machines.groups.epochs.epoch_members": "settle-20",
    "kpybroker.machines.groups.events": "commit-50",
    "kpybroker.machines.groups.group": "commit-50",
    "kpybroker.machines.groups.offsets.commit": "commit-50",
    "kpybroker.machines.groups.offsets.commit_record": "commit-50",
    "kpybroker.machines.groups.offsets.committed": "commit-50",
    "kpybroker.machines.groups.offsets.replay": "commit-50",
    "kpybroker.machines.groups.record": "commit-50",
    "kpybroker.machines.groups.resting": "rebalance-1000",
    "kpybroker.machines.groups.share.share_group": "share-read-1",
    "kpybroker.machines.groups.shard": "commit-50",
    "kpybroker.machines.groups.streams.streams_group": "settle-20",
    "kpybroker.machines.groups.timers": "commit-50",
    "kpybroker.requests.guards.records": "small-requests-50",
    "kpybroker.requests.guards.stage": "small-requests-50",
    "kpybroker.requests.handlers.add_partitions_to_txn": "transactions-100-1",
    "kpybroker.requests.handlers.consumer_group_heartbeat": "settle-20",
    "kpybroker.requests.handlers.end_txn": "transactions-100-1",
    "kpybroker.requests.handlers.fetch": "drain",
    "kpybroker.requests.handlers.heartbeat": "rebalance-1000",
    "kpybroker.requests.handlers.join_group": "rebalance-1000",
    "kpybroker.requests.handlers.offset_commit": "commit-50",
    "kpybroker.requests.handlers.produce": "many-partitions-50",
    "kpybroker.requests.handlers.sync_group": "rebalance-1000",
    "kpybroker.hosts.coordinators.followed_topics": "commit-50",
    "kpybroker.hosts.coordinators.groups": "commit-50",
    "kpybroker.hosts.coordinators.hosted_shard": "commit-50",
    "kpybroker.hosts.coordinators.marker_writer": "transactions-100-1",
    "kpybroker.hosts.coordinators.markers": "transactions-100-1",
    "kpybroker.hosts.coordinators.placement": "commit-50",
    "kpybroker.hosts.coordinators.shards": "commit-50",
    "kpybroker.hosts.coordinators.tickets": "commit-50",
    "kpybroker.runtime.io.scheduler": "transactional-ids",
    "kpybroker.machines.journal": "commit-50",
    "kpybroker.machines.metadata.delta": "topics-1000",
    "kpybroker.machines.metadata.topic": "topics-1000",
    "kpybroker.machines.metadata.units": "topics-1000",
    "kpybroker.machines.partition.follower": "round-trip",
    "kpybroker.machines.partition.in_sync": "round-trip",
    "kpybroker.machines.partition.leader": "small-requests-50",
    "kpybroker.machines.partition.role": "round-trip",
    "kpybroker.machines.partition.validation": "record-cost-unequal",
    "kpybroker.machines.partition.verification": "transactions-100-1",
    "kpybroker.hosts.replicas.commit_wait": "round-trip-acks-all",
    "kpybroker.hosts.replicas.replica": "small-requests-50",
    "kpybroker.hosts.replicas.replicas": "topics-1000",
    "kpybroker.requests.server.backlog": "round-trip",
    "kpybroker.requests.server.channel": "round-trip",
    "kpybroker.requests.server.connection": "round-trip",
    "kpybroker.requests.server.listener": "round-trip",
    "kpybroker.requests.server.memory": "round-trip",
    "kpybroker.requests.server.mutes": "round-trip",
    "kpybroker.requests.server.outbox": "round-trip",
    "kpybroker.requests.server.poller": "round-trip",
    "kpybroker.requests.server.tls_channel": "tls-small-requests",
    "kpybroker.requests.server.tls_records": "tls-small-requests",
    "kpybroker.requests.serving.group_requests": "commit-50",
    "kpybroker.requests.serving.permissions": "small-requests-50",
    "kpybroker.requests.serving.reading.answer": "drain",
    "kpybroker.requests.serving.reading.client": "drain",
    "kpybroker.requests.serving.reading.reader": "drain",
    "kpybroker.requests.serving.reading.replica": "round-trip",
    "kpybroker.requests.serving.repeated_partitions": "many-partitions-50",
    "kpybroker.requests.serving.transaction_requests": "transactions-100-1",
    "kpybroker.requests.serving.transaction_verification": "transactions-100-1",
    "kpybroker.requests.serving.transactional_batches": "transactions-100-1",
    "kpybroker.requests.serving.unopened_logs": "many-partitions-50",
    "kpybroker.machines.share_coordinator.decision": "share-read-1",
    "kpybroker.testing.clock": "transactional-ids",
    "kpybroker.machines.transactions.coordinator": "transactions-100-1",
    "kpybroker.machines.transactions.decision": "transactions-100-1",
    "kpybroker.machines.transactions.end_transaction": "transactions-100-1",
    "kpybroker.machines.transactions.markers": "transactions-100-1",
    "kpybroker.machines.transactions.partitions": "transactions-100-1",
    "kpybroker.machines.transactions.record": "transactions-100-1",
    "kpybroker.machines.transactions.responses": "transactions-100-1",
    "kpybroker.machines.transactions.shard": "transactions-100-1",
    "kpybroker.machines.transactions.timers": "transactions-100-1",
    "kpybroker.machines.transactions.transaction": "transactions-100-1",
    "kpybroker.machines.transactions.usual_value": "transactions-100-1",
    "kpystorage.boundaries": "small-requests-50",
    "kpystorage.compaction.batches": "tail-beside-compaction",
    "kpystorage.compaction.filtering": "tail-beside-compaction",
    "kpystorage.compaction.mapping": "tail-beside-compaction",
    "kpystorage.compaction.marks": "tail-beside-compaction",
    "kpystorage.compaction.offset_map": "tail-beside-compaction",
    "kpystorage.compaction.rewriting": "tail-beside-compaction",
    "kpystorage.compaction.surveying": "tail-beside-compaction",
    "kpystorage.compaction.transactions": "tail-beside-compaction",
    "kpystorage.compaction.writing": "tail-beside-compaction",
    "kpystorage.control_batches": "transactions-100-1",
    "kpystorage.directory": "restart-partitions-1000",
    "kpystorage.entry_file": "drain",
    "kpystorage.gathering": "many-partitions-50",
    "kpystorage.home": "restart-partitions-1000",
    "kpystorage.leader_epochs": "restart-partitions-1000",
    "kpystorage.log": "small-requests-50",
    "kpystorage.log_offset": "small-requests-50",
    "kpystorage.log_slice": "drain",
    "kpystorage.lookups": "drain",
    "kpystorage.names": "restart-partitions-1000",
    "kpystorage.offset_index": "drain",
    "kpystorage.producer_states": "small-requests-50",
    "kpystorage.real_file": "small-requests-50",
    "kpystorage.recovery": "restart-partitions-1000",
    "kpystorage.scan": "drain",
    "kpystorage.segment": "small-requests-50",
    "kpystorage.segment_files": "restart-partitions-1000",
    "kpystorage.snapshot_files": "restart-partitions-1000",
    "kpystorage.time_index": "drain",
    "kpystorage.transaction_index": "transactions-100-1",
    "kpywire.batch": "record-cost-unequal",
    "kpywire.columns.walking": "spark-source-1000",
    "kpywire.control_record": "transactions-100-1",
    "kpywire.header": "small-requests-50",
    "kpywire.offset_commit": "commit-50",
    "kpywire.produce": "many-partitions-50",
    "kpywire.record": "record-cost-unequal",
    "kpywire.skim": "record-cost-unequal",
    "kpywire.varint": "record-cost-unequal",
    "kpywire.walk": "record-cost-unequal",
}
"""The modules, each with the row of the benchmarks that loses most without it, or without the class below its own."""
SETUP = """
import os
import sys
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup

options = ["--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
level = os.environ.get("MYPYC_OPT_LEVEL", "3")
modules = mypycify([*options, *{paths}], debug_level="0", opt_level=level, group_name="kpywire.compiled")
# Nobody reads warnings about generated code, and looking for them (-Wall) takes gcc ten minutes. mypyc indents deeper
# from class to class: four fifths of 110 MB are spaces.
# Nobody but Python's import calls a compiled module by name. Without the names of all functions, which would be looked
# up at the start, a process is a megabyte smaller.
for module in modules:
    module.extra_compile_args = [*module.extra_compile_args, "-Wno-all"]
    if sys.platform == "linux":
        module.extra_link_args = [*module.extra_link_args, "-Wl,--version-script=exported"]
for source in {{source for module in modules for source in module.sources}}:
    lines = Path(source).read_text().splitlines(keepends=True)
    Path(source).write_text("".join(line.lstrip(" ") for line in lines))
setup(name="kpybroker", packages=[], ext_modules=modules)
"""
EXPORTED = "{ global: PyInit_*; local: *; };\n"
"""The names that linkers keep in a compiled module."""
SHOWN_LAST_LINES = 30


def is_asked_for() -> bool:
    return os.environ.get(ASKED_BY, "") not in ("", "0")


class CompiledModules(BuildHookInterface):
    """The hook that hatchling calls when it builds a wheel."""

    def dependencies(self) -> list[str]:
        """The packages that the build environment needs beyond hatchling."""
        return COMPILERS if is_asked_for() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled modules to the wheel, which is then one of this platform; not to a development install."""
        if version == "editable" or not is_asked_for():
            return
        self.copy = TemporaryDirectory(prefix="kpybroker-")
        directory = Path(self.copy.name)
        lay_out(Path(self.root), directory)
        compiled = compile_modules(directory)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(path): str(path.relative_to(directory)) for path in compiled})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """The wheel is written: the copy may go."""
        if hasattr(self, "copy"):
            self.copy.cleanup()


def lay_out(root: Path, directory: Path) -> None:
    """Copy the packages of a checkout, and write beside them a setup.py that compiles their modules."""
    for package in PACKAGES:
        shutil.copytree(root / package, directory / Path(package).name)
    paths = [f"{module.replace('.', '/')}.py" for module in MODULES]
    (directory / "exported").write_text(EXPORTED)
    (directory / "setup.py").write_text(SETUP.format(paths=paths))


def compile_modules(directory: Path) -> list[Path]:
    """Compile the modules in a directory that was laid out; the files to add to the packages.

    Raises:
        RuntimeError: there is no C compiler, or one of the compilers refuses a module.
    """
    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    done = subprocess.run(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        reported = "\n".join(done.stdout.splitlines()[-SHOWN_LAST_LINES:])
        raise RuntimeError(f"{reported}\n{ASKED_BY} asks for compiled modules, and they cannot be built (see above)")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return sorted(path for package in PACKAGES for path in directory.glob(f"{Path(package).name}/**/*{suffix}"))
