"""Compiled wheels: the modules that every produced record passes, compiled by mypyc where ``KPYBROKER_COMPILE=1`` asks.

Without it the wheel is pure Python, and a development install always is, so that no compiled module ever hides the
source somebody edits. A compiled wheel holds the same sources and behaves the same; ``kpybroker --version`` says which
form it is. It fits one platform and one version of Python. Nothing falls back silently: what was asked for is built, or
the build fails and says why.

A module is compiled where a profile shows that it saves time. CPU of one Produce request in the dispatcher, and of the
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
decide on topics for topics-1000 (an eighth). A remembered decision of the authorizer takes 0.25 µs instead of 0.36.
Channels with TLS and the login are compiled for the rows tls-small-requests and scram-logins. All forms of an answer
to Fetch are compiled, since calls to one of several classes are direct only if all of them are. Logs are compacted in
less than half the time (python -m benchmarks.compaction). The way from a start to open logs, from the records of
partitions to recovery, is compiled for restart-partitions-1000: a fifth of its CPU.

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
MODULES = (
    "kpybroker.machines.answered_errors",
    "kpybroker.machines.authorization.acl_authorizer",
    "kpybroker.machines.authorization.audit",
    "kpybroker.machines.authorization.authorizer",
    "kpybroker.machines.authorization.index",
    "kpybroker.runtime.calls.call",
    "kpybroker.runtime.calls.client",
    "kpybroker.runtime.calls.deferred",
    "kpybroker.runtime.calls.gathered",
    "kpybroker.runtime.calls.pending",
    "kpybroker.runtime.calls.principal",
    "kpybroker.config.stored",
    "kpybroker.machines.controller.large_batch",
    "kpybroker.machines.controller.partition_change",
    "kpybroker.machines.controller.state",
    "kpybroker.machines.controller.topics",
    "kpybroker.machines.coordination.decision",
    "kpybroker.machines.coordination.sweeps",
    "kpybroker.runtime.counters",
    "kpybroker.requests.dispatching.dispatcher",
    "kpybroker.requests.dispatching.login",
    "kpybroker.requests.dispatching.repeated",
    "kpybroker.requests.dispatching.replies",
    "kpybroker.requests.dispatching.served",
    "kpybroker.runtime.fairness.account",
    "kpybroker.runtime.fairness.aside",
    "kpybroker.runtime.fairness.debtor",
    "kpybroker.runtime.fairness.line",
    "kpybroker.runtime.fairness.slices",
    "kpybroker.runtime.fairness.trait",
    "kpybroker.runtime.fairness.turn",
    "kpybroker.machines.fetch.remembered",
    "kpybroker.machines.fetch.session",
    "kpybroker.machines.fetch.sessions",
    "kpybroker.machines.groups.beats",
    "kpybroker.machines.groups.classic.asleep",
    "kpybroker.machines.groups.classic.classic_group",
    "kpybroker.machines.groups.classic.heartbeat",
    "kpybroker.machines.groups.classic.join",
    "kpybroker.machines.groups.classic.member",
    "kpybroker.machines.groups.classic.rebalance",
    "kpybroker.machines.groups.classic.replay",
    "kpybroker.machines.groups.classic.responses",
    "kpybroker.machines.groups.classic.snapshot",
    "kpybroker.machines.groups.classic.sync",
    "kpybroker.machines.groups.commit_bytes",
    "kpybroker.machines.groups.consumer.consumer_group",
    "kpybroker.machines.groups.coordinator",
    "kpybroker.machines.groups.decision",
    "kpybroker.machines.groups.epochs.epoch_members",
    "kpybroker.machines.groups.events",
    "kpybroker.machines.groups.group",
    "kpybroker.machines.groups.offsets.commit",
    "kpybroker.machines.groups.offsets.commit_record",
    "kpybroker.machines.groups.offsets.committed",
    "kpybroker.machines.groups.offsets.replay",
    "kpybroker.machines.groups.record",
    "kpybroker.machines.groups.resting",
    "kpybroker.machines.groups.share.share_group",
    "kpybroker.machines.groups.shard",
    "kpybroker.machines.groups.streams.streams_group",
    "kpybroker.machines.groups.timers",
    "kpybroker.requests.guards.records",
    "kpybroker.requests.guards.stage",
    "kpybroker.requests.handlers.add_partitions_to_txn",
    "kpybroker.requests.handlers.consumer_group_heartbeat",
    "kpybroker.requests.handlers.end_txn",
    "kpybroker.requests.handlers.fetch",
    "kpybroker.requests.handlers.heartbeat",
    "kpybroker.requests.handlers.join_group",
    "kpybroker.requests.handlers.offset_commit",
    "kpybroker.requests.handlers.produce",
    "kpybroker.requests.handlers.sync_group",
    "kpybroker.hosts.coordinators.followed_topics",
    "kpybroker.hosts.coordinators.groups",
    "kpybroker.hosts.coordinators.hosted_shard",
    "kpybroker.hosts.coordinators.marker_writer",
    "kpybroker.hosts.coordinators.markers",
    "kpybroker.hosts.coordinators.placement",
    "kpybroker.hosts.coordinators.shards",
    "kpybroker.hosts.coordinators.tickets",
    "kpybroker.runtime.io.scheduler",
    "kpybroker.machines.journal",
    "kpybroker.machines.metadata.delta",
    "kpybroker.machines.metadata.image_records",
    "kpybroker.machines.metadata.loader",
    "kpybroker.machines.metadata.topic",
    "kpybroker.machines.metadata.units",
    "kpybroker.machines.partition.follower",
    "kpybroker.machines.partition.in_sync",
    "kpybroker.machines.partition.leader",
    "kpybroker.machines.partition.role",
    "kpybroker.machines.partition.validation",
    "kpybroker.machines.partition.verification",
    "kpybroker.hosts.replicas.commit_wait",
    "kpybroker.hosts.replicas.replica",
    "kpybroker.hosts.replicas.replicas",
    "kpybroker.machines.sasl.login",
    "kpybroker.machines.sasl.scram",
    "kpybroker.machines.sasl.scram_server",
    "kpybroker.requests.server.backlog",
    "kpybroker.requests.server.channel",
    "kpybroker.requests.server.connection",
    "kpybroker.requests.server.connection_quotas",
    "kpybroker.requests.server.creation_rate",
    "kpybroker.requests.server.listener",
    "kpybroker.requests.server.memory",
    "kpybroker.requests.server.mutes",
    "kpybroker.requests.server.newcomers",
    "kpybroker.requests.server.outbox",
    "kpybroker.requests.server.poller",
    "kpybroker.requests.server.time_limit",
    "kpybroker.requests.server.tls_channel",
    "kpybroker.requests.server.tls_records",
    "kpybroker.requests.serving.consumer_protocol",
    "kpybroker.requests.serving.group_requests",
    "kpybroker.requests.serving.permissions",
    "kpybroker.requests.serving.reading.answer",
    "kpybroker.requests.serving.reading.client",
    "kpybroker.requests.serving.reading.reader",
    "kpybroker.requests.serving.reading.replica",
    "kpybroker.requests.serving.repeated_partitions",
    "kpybroker.requests.serving.transaction_requests",
    "kpybroker.requests.serving.transaction_verification",
    "kpybroker.requests.serving.transactional_batches",
    "kpybroker.requests.serving.unopened_logs",
    "kpybroker.machines.share_coordinator.decision",
    "kpybroker.testing.clock",
    "kpybroker.machines.transactions.coordinator",
    "kpybroker.machines.transactions.decision",
    "kpybroker.machines.transactions.end_transaction",
    "kpybroker.machines.transactions.expiry",
    "kpybroker.machines.transactions.init_producer_id",
    "kpybroker.machines.transactions.markers",
    "kpybroker.machines.transactions.outcome",
    "kpybroker.machines.transactions.partitions",
    "kpybroker.machines.transactions.record",
    "kpybroker.machines.transactions.responses",
    "kpybroker.machines.transactions.settings",
    "kpybroker.machines.transactions.shard",
    "kpybroker.machines.transactions.timeouts",
    "kpybroker.machines.transactions.timers",
    "kpybroker.machines.transactions.transaction",
    "kpybroker.machines.transactions.usual_value",
    "kpystorage.boundaries",
    "kpystorage.checkpoint",
    "kpystorage.compaction.batches",
    "kpystorage.compaction.filtering",
    "kpystorage.compaction.mapping",
    "kpystorage.compaction.marks",
    "kpystorage.compaction.offset_map",
    "kpystorage.compaction.rewriting",
    "kpystorage.compaction.surveying",
    "kpystorage.compaction.transactions",
    "kpystorage.compaction.writing",
    "kpystorage.control_batches",
    "kpystorage.directory",
    "kpystorage.entry_file",
    "kpystorage.gathering",
    "kpystorage.home",
    "kpystorage.leader_epochs",
    "kpystorage.log",
    "kpystorage.log_offset",
    "kpystorage.log_slice",
    "kpystorage.lookups",
    "kpystorage.names",
    "kpystorage.offset_index",
    "kpystorage.producer_snapshot",
    "kpystorage.producer_states",
    "kpystorage.real_file",
    "kpystorage.recovery",
    "kpystorage.scan",
    "kpystorage.segment",
    "kpystorage.segment_files",
    "kpystorage.snapshot_files",
    "kpystorage.time_index",
    "kpystorage.transaction_index",
    "kpywire.batch",
    "kpywire.columns.walking",
    "kpywire.control_record",
    "kpywire.header",
    "kpywire.offset_commit",
    "kpywire.produce",
    "kpywire.record",
    "kpywire.skim",
    "kpywire.varint",
    "kpywire.walk",
)
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
