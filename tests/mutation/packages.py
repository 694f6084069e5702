"""The pure packages that are mutated, and the quick tests that speak for each.

A row names sources relative to the root, and tests relative to ``tests/``. A test file that starts brokers is left out:
they are other processes, which a mutant does not reach.
"""

from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
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
    "share": Package(("kpybroker/share",), ("share",)),
    "share_coordinator": Package(("kpybroker/share_coordinator",), ("share_coordinator",)),
    "quotas": Package(("kpybroker/quotas",), ("quotas",)),
    "controller": Package(("kpybroker/controller",), ("controller", "transcripts")),
    "fetch": Package(("kpybroker/fetch",), ("fetch",)),
    "coordination": Package(
        ("kpybroker/coordination",), ("coordination", "share_coordinator", "groups/test_topic_view.py", "transactions")
    ),
    "telemetry": Package(("kpybroker/telemetry",), ("telemetry",)),
    "partition": Package(("kpybroker/partition", "kpybroker/replicas/fetcher.py"), ("partition", "replication")),
    "authorization": Package(("kpybroker/authorization",), ("authorization", "controller/test_acls_beside_kafka.py")),
    "sasl": Package(("kpybroker/sasl",), ("sasl", "oauth/test_access_tokens.py")),
    "scan": Package(
        _modules(
            "kpybroker/scan",
            *("admission", "bounds", "columns", "errors", "filter_text", "filters", "given_options", "options"),
            *("planning", "pruning", "ranges", "stream_offsets", "topics"),
        ),
        ("scan/test_filters.py", "scan/test_options.py", "scan/test_plans.py"),
    ),
    "lake": Package(
        (
            *_modules("kpybroker/lake", "coverage", "json_schema", "naming", "planning", "texts"),
            "kpybroker/schemas/avro_shape.py",
        ),
        tuple(
            f"lake/test_{name}.py"
            for name in ("planning", "naming", "texts", "json_schema", "json_columns", "avro_values", "avro_shape")
        ),
    ),
    "groups": Package(("kpybroker/groups",), ("groups",)),
    "journal": Package(("kpybroker/journal.py", "kpybroker/errors.py"), ("journal",)),
    "metadata": Package(("kpybroker/metadata",), ("metadata", "groups/test_topic_view.py", "controller")),
    "raft": Package(("kpybroker/raft",), ("raft",)),
    "transactions": Package(("kpybroker/transactions",), ("transactions",)),
    "audit": Package(
        _modules(
            "kpybroker/audit",
            *("findings", "groups", "joining", "kept", "keys", "mirror", "records", "replicas", "running", "sources"),
            *("stretch", "tables", "walk", "windows"),
        ),
        (
            "audit/test_walking.py",
            "audit/test_joining.py",
            "audit/test_summaries.py",
            "audit/test_comparing.py",
            "audit/test_counts_and_keys.py",
            "audit/test_planted_faults.py",
            "audit/test_mirrors.py",
            "audit/test_later_audits.py",
        ),
    ),
    "console": Package(
        ("kpybroker/console/views",),
        tuple(f"console/test_{name}.py" for name in ("views", "verdicts", "rows_of_pages", "contents")),
    ),
    "zookeeper": Package(
        (
            "kpybroker/zookeeper/controller",
            "kpybroker/zookeeper/migration",
            "kpybroker/zookeeper/tree",
            "kpybroker/zookeeper/view/progress.py",
            *_modules("kpybroker/zookeeper/controlling", "topics", "words"),
            *_modules(
                "kpybroker/zookeeper/broker",
                *("acl_requests", "apis", "client_configs", "controller_requests", "protection_records"),
                *("token_requests", "translation", "two_controllers"),
            ),
            *_modules(
                "kpybroker/zookeeper/client",
                *("addresses", "digest_md5", "error_codes", "frames", "jaas_file", "jute", "operations", "session"),
                "watches",
            ),
        ),
        tuple(
            f"zookeeper/test_{name}.py"
            for name in (
                *("another_reign", "tree", "session", "zookeeper_controller_events", "controller_requests", "features"),
                *("migration", "migration_progress", "two_controllers", "protection_znodes", "refusals_of_brokers"),
                *("zookeeper_registration", "zookeeper_protection", "simulated"),
                *(
                    "topic_writes",
                    "words",
                    "znode_contents",
                    "bytes_of_zookeeper",
                    "requests_of_clients",
                    "differences",
                ),
            )
        ),
    ),
    "kpywire": Package(("wire/kpywire",), ("wire", "columns")),
    "kpystorage": Package(("storage/kpystorage",), ("storage",)),
}
