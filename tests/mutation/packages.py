"""The pure packages that are mutated, and the quick tests that speak for each.

A row names sources relative to the root, and tests relative to ``tests/``. A test file that starts brokers is left out:
they are other processes, which a mutant does not reach.
"""

from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
ZOOKEEPER: Final = """
another_reign bytes_of_zookeeper controller_histories controller_requests differences dying_writers election_steps
features lagging_servers lost_connections migration migration_progress protection_znodes refusals_of_brokers
requests_of_clients session simulated token_requests topic_writes tree two_controllers view words znode_contents
zookeeper_controller_against_kafka zookeeper_controller_events zookeeper_protection zookeeper_registration
"""
MIRROR: Final = """
agreement carrying counted_transactions feeding forked_metadata held_back held_markers joining_mirrors
mirror_plans mirror_progress planned_removals progress wholeness
"""
BALANCE: Final = (
    "directory_moves executions explained_plans move_pace optimum plan_files planner reasons_to_stay rolling"
)
CONSOLE: Final = """
answers_are_true config_words contents features_of_quorum finding group_list group_progress group_story json_paths
looks_at_records moves nodes produced_again record_filters records_as_csv rows_of_pages searches_elsewhere shown_records
standing topic_rates topics_page verdicts views wording
"""
REMOTE_LOG: Final = """
compacted_histories empty_leader first_times local_view remote_lineage remote_log_quota remote_metadata_of_nodes
remote_metadata_topic remote_metadata_values remote_reads remote_segments replicas_that_begin_in_middle store_compaction
tier_check tier_report tiered_histories tiered_replica_chaos tiering_decisions
"""
QUICK: Final = "not (slow or java or spark)"


class Package(NamedTuple):
    """One package: the sources that are changed, and the tests that must notice."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self) -> list[Path]:
        """All modules of the package."""
        found: list[Path] = []
        for source in self.sources:
            place = ROOT / source
            found += sorted(place.rglob("*.py")) if place.is_dir() else [place]
        return found

    def modules(self) -> list[str]:
        """The names by which its modules are imported."""
        parts = [path.relative_to(ROOT).with_suffix("").parts for path in self.files()]
        names = [".".join(each[1:] if each[0] in ("wire", "storage") else each) for each in parts]
        return [name.removesuffix(".__init__") for name in names]


def _modules(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.py" for name in names)


PACKAGES: Final[dict[str, Package]] = {
    "share": Package(("kpybroker/machines/share",), ("share", "transcripts")),
    "share_coordinator": Package(("kpybroker/machines/share_coordinator",), ("share_coordinator", "transcripts")),
    "quotas": Package(("kpybroker/machines/quotas",), ("quotas",)),
    "balance": Package(
        ("kpybroker/machines/balance",),
        ("transcripts", *(f"balance/test_{name}.py" for name in BALANCE.split())),
    ),
    "controller": Package(("kpybroker/machines/controller",), ("controller", "transcripts")),
    "fetch": Package(("kpybroker/machines/fetch",), ("fetch",)),
    "mirror": Package(
        ("kpybroker/machines/mirror",),
        tuple(f"mirror/test_{name}.py" for name in MIRROR.split()),
    ),
    "backup": Package(("kpybroker/machines/backup",), ("backup",)),
    "silence": Package(
        _modules("kpybroker/machines", "silence", "reporting_heartbeat"),
        ("replication/test_silence.py", "controller/test_silence_reports.py"),
    ),
    "lag": Package(("kpybroker/machines/lag.py",), ("metrics/test_lag_definition.py",)),
    "remote_log": Package(
        ("kpybroker/machines/remote_log",),
        tuple(f"remote_log/test_{name}.py" for name in REMOTE_LOG.split()),
    ),
    "coordination": Package(
        ("kpybroker/machines/coordination",),
        ("coordination", "share_coordinator", "groups/test_topic_view.py", "transactions"),
    ),
    "telemetry": Package(("kpybroker/machines/telemetry",), ("telemetry",)),
    "partition": Package(
        ("kpybroker/machines/partition", "kpybroker/machines/replica_fetcher.py"), ("partition", "replication")
    ),
    "authorization": Package(
        ("kpybroker/machines/authorization",), ("authorization", "controller/test_acls_beside_kafka.py")
    ),
    "sasl": Package(("kpybroker/machines/sasl",), ("sasl", "oauth/test_access_tokens.py")),
    "scan": Package(
        ("kpybroker/machines/scan",),
        ("scan/test_filters.py", "scan/test_options.py", "scan/test_plans.py"),
    ),
    "lake": Package(
        ("kpybroker/machines/lake", "kpybroker/machines/schemas"),
        tuple(
            f"lake/test_{name}.py"
            for name in ("planning", "naming", "texts", "json_schema", "json_columns", "avro_values", "avro_shape")
        ),
    ),
    "groups": Package(("kpybroker/machines/groups",), ("groups", "transcripts", "broker/test_loading_records.py")),
    "journal": Package(("kpybroker/machines/journal.py", "kpybroker/machines/errors.py"), ("journal",)),
    "metadata": Package(
        ("kpybroker/machines/metadata",), ("metadata", "groups/test_topic_view.py", "quorum/test_formatter.py")
    ),
    "raft": Package(("kpybroker/machines/raft",), ("raft", "transcripts")),
    "transactions": Package(("kpybroker/machines/transactions",), ("transactions", "transcripts")),
    "audit": Package(
        ("kpybroker/machines/audit",),
        (
            "audit/test_walking.py",
            "audit/test_joining.py",
            "audit/test_summaries.py",
            "audit/test_comparing.py",
            "audit/test_equal_batches.py",
            "audit/test_counts_and_keys.py",
            "audit/test_planted_faults.py",
            "audit/test_mirrors.py",
            "audit/test_later_audits.py",
        ),
    ),
    "console": Package(
        ("kpybroker/machines/console",),
        tuple(f"console/test_{name}.py" for name in CONSOLE.split()),
    ),
    "zookeeper": Package(
        (
            "kpybroker/machines/zookeeper",
            "kpybroker/hosts/zookeeper/broker/two_controllers.py",
            *_modules("kpybroker/hosts/zookeeper/controller", "topics", "words"),
        ),
        (
            "transcripts",
            *(f"zookeeper/test_{name}.py" for name in ZOOKEEPER.split()),
        ),
    ),
    "kpywire": Package(("wire/kpywire",), ("wire", "columns", "broker/test_loading_records.py")),
    "kpystorage": Package(("storage/kpystorage",), ("storage", "remote")),
    "remote": Package(("storage/kpystorage/remote",), ("remote",)),
}
