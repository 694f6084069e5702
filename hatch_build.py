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
    "kpybroker.answered_errors",
    "kpybroker.authorization.acl_authorizer",
    "kpybroker.authorization.audit",
    "kpybroker.authorization.authorizer",
    "kpybroker.authorization.index",
    "kpybroker.calls.call",
    "kpybroker.calls.client",
    "kpybroker.calls.deferred",
    "kpybroker.calls.gathered",
    "kpybroker.calls.pending",
    "kpybroker.calls.principal",
    "kpybroker.config.stored",
    "kpybroker.controller.large_batch",
    "kpybroker.controller.partition_change",
    "kpybroker.controller.state",
    "kpybroker.controller.topics",
    "kpybroker.coordination.decision",
    "kpybroker.coordination.sweeps",
    "kpybroker.counters",
    "kpybroker.dispatching.dispatcher",
    "kpybroker.dispatching.login",
    "kpybroker.dispatching.repeated",
    "kpybroker.dispatching.replies",
    "kpybroker.dispatching.served",
    "kpybroker.fairness.account",
    "kpybroker.fairness.aside",
    "kpybroker.fairness.debtor",
    "kpybroker.fairness.line",
    "kpybroker.fairness.slices",
    "kpybroker.fairness.trait",
    "kpybroker.fairness.turn",
    "kpybroker.fetch.remembered",
    "kpybroker.fetch.session",
    "kpybroker.fetch.sessions",
    "kpybroker.groups.beats",
    "kpybroker.groups.classic.asleep",
    "kpybroker.groups.classic.classic_group",
    "kpybroker.groups.classic.heartbeat",
    "kpybroker.groups.classic.join",
    "kpybroker.groups.classic.member",
    "kpybroker.groups.classic.rebalance",
    "kpybroker.groups.classic.replay",
    "kpybroker.groups.classic.responses",
    "kpybroker.groups.classic.snapshot",
    "kpybroker.groups.classic.sync",
    "kpybroker.groups.commit_bytes",
    "kpybroker.groups.consumer.consumer_group",
    "kpybroker.groups.coordinator",
    "kpybroker.groups.decision",
    "kpybroker.groups.epoch_members",
    "kpybroker.groups.events",
    "kpybroker.groups.group",
    "kpybroker.groups.offsets.commit",
    "kpybroker.groups.offsets.commit_record",
    "kpybroker.groups.offsets.committed",
    "kpybroker.groups.offsets.replay",
    "kpybroker.groups.record",
    "kpybroker.groups.resting",
    "kpybroker.groups.share.share_group",
    "kpybroker.groups.shard",
    "kpybroker.groups.streams.streams_group",
    "kpybroker.groups.timers",
    "kpybroker.guards.records",
    "kpybroker.guards.stage",
    "kpybroker.handlers.add_partitions_to_txn",
    "kpybroker.handlers.consumer_group_heartbeat",
    "kpybroker.handlers.end_txn",
    "kpybroker.handlers.fetch",
    "kpybroker.handlers.heartbeat",
    "kpybroker.handlers.join_group",
    "kpybroker.handlers.offset_commit",
    "kpybroker.handlers.produce",
    "kpybroker.handlers.sync_group",
    "kpybroker.hosting.followed_topics",
    "kpybroker.hosting.groups",
    "kpybroker.hosting.hosted_shard",
    "kpybroker.hosting.marker_writer",
    "kpybroker.hosting.markers",
    "kpybroker.hosting.placement",
    "kpybroker.hosting.shards",
    "kpybroker.hosting.tickets",
    "kpybroker.io.scheduler",
    "kpybroker.journal",
    "kpybroker.metadata.delta",
    "kpybroker.metadata.image_records",
    "kpybroker.metadata.loader",
    "kpybroker.metadata.topic",
    "kpybroker.metadata.units",
    "kpybroker.partition.follower",
    "kpybroker.partition.in_sync",
    "kpybroker.partition.leader",
    "kpybroker.partition.role",
    "kpybroker.partition.validation",
    "kpybroker.partition.verification",
    "kpybroker.replicas.commit_wait",
    "kpybroker.replicas.replica",
    "kpybroker.replicas.replicas",
    "kpybroker.sasl.login",
    "kpybroker.sasl.scram",
    "kpybroker.sasl.scram_server",
    "kpybroker.server.backlog",
    "kpybroker.server.channel",
    "kpybroker.server.connection",
    "kpybroker.server.connection_quotas",
    "kpybroker.server.creation_rate",
    "kpybroker.server.listener",
    "kpybroker.server.memory",
    "kpybroker.server.mutes",
    "kpybroker.server.newcomers",
    "kpybroker.server.outbox",
    "kpybroker.server.poller",
    "kpybroker.server.time_limit",
    "kpybroker.server.tls_channel",
    "kpybroker.server.tls_records",
    "kpybroker.serving.consumer_protocol",
    "kpybroker.serving.group_requests",
    "kpybroker.serving.permissions",
    "kpybroker.serving.reading.answer_budget",
    "kpybroker.serving.reading.client",
    "kpybroker.serving.reading.lookup",
    "kpybroker.serving.reading.policy",
    "kpybroker.serving.reading.reader",
    "kpybroker.serving.reading.remembered",
    "kpybroker.serving.reading.replica",
    "kpybroker.serving.reading.session_answer",
    "kpybroker.serving.reading.throttled",
    "kpybroker.serving.repeated_partitions",
    "kpybroker.serving.transaction_requests",
    "kpybroker.serving.transaction_verification",
    "kpybroker.serving.transactional_batches",
    "kpybroker.serving.unopened_logs",
    "kpybroker.share_coordinator.decision",
    "kpybroker.testing.clock",
    "kpybroker.transactions.coordinator",
    "kpybroker.transactions.decision",
    "kpybroker.transactions.end_transaction",
    "kpybroker.transactions.expiry",
    "kpybroker.transactions.init_producer_id",
    "kpybroker.transactions.markers",
    "kpybroker.transactions.outcome",
    "kpybroker.transactions.partitions",
    "kpybroker.transactions.record",
    "kpybroker.transactions.responses",
    "kpybroker.transactions.settings",
    "kpybroker.transactions.shard",
    "kpybroker.transactions.timeouts",
    "kpybroker.transactions.timers",
    "kpybroker.transactions.transaction",
    "kpybroker.transactions.usual_value",
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
SAID_LAST_LINES = 30


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
        said = "\n".join(done.stdout.splitlines()[-SAID_LAST_LINES:])
        raise RuntimeError(f"{said}\n{ASKED_BY} asks for compiled modules, and they cannot be built (see above)")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return sorted(path for package in PACKAGES for path in directory.glob(f"{Path(package).name}/**/*{suffix}"))
