"""The KIPs that the code names, for docs/support.md: what each is about. The modules that implement it are found in the
code.

Invariant, held by a test: a KIP that a docstring or comment of the packages names is here, and nothing else is.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

KIPS = {
    13: "Byte rates of clients are limited",
    43: "Several login mechanisms on one listener",
    48: "Delegation tokens",
    55: "Quotas of users",
    62: "Heartbeats beside processing; the rebalance timeout",
    73: "Replication within a rate",
    74: "A fetch response is bounded as a whole, and its first batch comes whole",
    85: "Login modules in ``sasl.jaas.config`` instead of a file",
    98: "Idempotent producers, transactions",
    101: "Truncation by leader epoch",
    107: "Deleting records before an offset",
    113: "Moving partitions between the log directories of a broker",
    124: "The time of requests is limited",
    134: "A new group waits a moment for its first members",
    152: "Failed logins have an error of their own",
    183: "Electing preferred leaders",
    207: "A new leader says that it does not know the end yet",
    211: "Committed offsets expire when nobody reads any more",
    219: "Throttled clients are answered at once, and wait themselves",
    226: "Broker configs that change while it runs",
    227: "Incremental fetch sessions",
    229: "Deleting groups",
    279: "Truncation by leader epoch after two quick elections",
    320: "Requests are fenced by leader epoch",
    339: "Changing single configs",
    342: "Extensions that clients send with a token",
    345: "Static members of groups",
    354: "A bound on how long a record waits for its compaction",
    360: "Producers that recover from lost state",
    368: "Sessions that end, and clients that authenticate again",
    371: "Users named by rules from the names in their certificates",
    373: "Delegation tokens for other users",
    380: "Requests of controllers say for which life of a broker they are (ZooKeeper mode)",
    392: "Consumers read from the closest replica",
    394: "Members join with an id that they were given first",
    402: "Connections are limited for each listener",
    405: "Tiered storage",
    412: "Log levels that change while it runs",
    430: "Operations that a client is authorised for",
    447: "Committed offsets that a transaction has still open",
    455: "Partition reassignments in the metadata",
    460: "Unclean elections on request",
    464: "Topics with the broker's default of partitions and replicas",
    467: "Produce errors that name the records",
    482: "Tagged fields",
    496: "Deleting committed offsets",
    497: "In-sync replicas are changed by request to the controller",
    511: "Clients say who they are, and versions nobody knows are answered",
    516: "Topic ids",
    518: "Listing groups by state",
    524: "Synonyms of broker loggers' configs",
    525: "What a created topic is like, in the answer",
    534: "Tombstones keep their deletion horizon",
    546: "Client quotas",
    554: "SCRAM credentials in the metadata",
    559: "Groups know their protocol's type and name",
    569: "Types and documentation of configs in DescribeConfigs",
    570: "StopReplica with an epoch for each partition (ZooKeeper mode)",
    584: "Versioned features",
    588: "Fencing has an error of its own",
    590: "Brokers forward requests to the controller",
    595: "KRaft's quorum",
    599: "Creating and deleting partitions is limited",
    601: "A connection that is not made in time is given up",
    612: "The rate of new connections is limited",
    630: "Snapshots of the metadata log, fetched from the leader",
    631: "KRaft's controller: registration, heartbeats, fencing",
    651: "Keys and certificates of TLS as PEM, in files or in configs",
    664: "Transactions and producers of a partition, listed and described; hanging ones found",
    699: "Several coordinators found at once",
    700: "DescribeCluster",
    709: "Offsets of several groups at once",
    714: "Clients push their own metrics to brokers, which subscribe to them",
    730: "Producer ids from the controller, in blocks",
    734: "The offset of the largest timestamp",
    768: "Tokens of an identity provider: signed tokens, client credentials",
    778: "Upgrades and downgrades of features",
    800: "Members say why they join or leave",
    814: "Static members skip the assignment after a restart",
    827: "Sizes of log directories",
    835: "The metadata log moves on while nothing happens",
    836: "The quorum, described",
    841: "Only replicas of brokers that are up join the in-sync set",
    848: "The new consumer groups, members of both protocols in one group, upgrade and downgrade of live groups",
    853: "Voters of the quorum in its log, changed while it runs",
    858: "Several log directories with KRaft",
    860: "Reassignments that may not change the replication factor",
    866: "Migration from ZooKeeper to KRaft",
    868: "Transactions of metadata records",
    890: "Transactions, second generation: an epoch for each, partitions added and verified by brokers",
    903: "Fetches of brokers carry their epoch",
    919: "Admin requests to controllers",
    932: "Share groups: members, sessions, acknowledgements, locks, and the share coordinator",
    950: "Tiered storage: disabling it for a topic",
    956: "Tiered storage: quotas of copies and reads",
    963: "Tiered storage: metrics of copies, deletions and what is left to do",
    951: "The new leader in the error that says there is one",
    966: "Eligible leader replicas: who leads when nobody is in sync, clean shutdowns, one minimum for all brokers",
    994: "Transactions that run for long, listed",
    996: "A question before a vote keeps the epoch",
    1023: "Tiered storage: empty replicas begin behind what is tiered",
    1043: "Groups of all types, listed and described",
    1058: "Tiered storage: the next segment with aborted transactions",
    1066: "Cordoned log directories in the metadata",
    1071: "Streams groups: tasks assigned by the coordinator, internal topics created by it",
    1142: "Listing what has configs",
    1191: "Dead-letter topics of share groups",
    1152: "Transactions listed by a pattern",
    1082: "Consumers make their own member ids",
    1099: "Protocols of members in descriptions of consumer groups",
    1251: "Commits with an older member epoch, for partitions that the member kept",
    1276: "Networks in ACLs",
    1312: "Controllers that will not come back are unregistered",
    1170: "One place for what a cluster begins with",
    1241: "Tiered storage: copies that wait for a lag",
    1242: "Clients say which cluster and node they mean, and begin again if they reached another",
    1319: "Transactional offset commits name topics by id",
    1331: "Descriptions of the topologies of streams groups: the fields and the status that there is none",
    1357: "The assignor of a streams group has a name",
    1263: "An interval between two assignments of a group",
    1166: "Followers of the quorum hear of its high watermark at once",
    1206: "Share groups: a strict limit of records in one acquisition",
    1222: "Share groups: renewal of acquisition locks",
    1226: "Share groups: the deliveries that are completed are counted, for lag",
    1228: "Markers say which generation ended the transaction",
}

_NAMED = re.compile(r"KIP-(\d+)")
_PACKAGES = ("kpybroker", "kpystorage", "kpywire")
_GENERATED = (
    *("messages", "metadata_records", "group_records", "transaction_records", "share_records"),
    "remote_log_records",
)
"""Declarations with Kafka's own texts, which name KIPs for what Kafka does."""
_MOST_PLACES = 3


def named_in_code() -> dict[int, list[Path]]:
    """The modules of our packages that name each KIP, by number; paths as in the checkout."""
    found: dict[int, list[Path]] = {}
    for path in _modules():
        if path.parent.name not in _GENERATED:
            for number in {int(text) for text in _NAMED.findall(path.read_text(encoding="utf-8"))}:
                found.setdefault(number, []).append(path)
    return found


def section() -> str:
    """The part of docs/support.md about KIPs."""
    found = named_in_code()
    head = "| KIP | about | named in |\n|---:|---|---|\n"
    lines = [
        "\n## KIPs\n\nThose that the code names where it keeps them; what is missing of one says the table above.\n\n",
        head,
    ]
    for number, about in sorted(KIPS.items()):
        places = sorted(found.get(number, []))
        links = [f"[{_in_checkout(path)}](../{_in_checkout(path)})" for path in places[:_MOST_PLACES]]
        more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
        lines.append(f"| {number} | {about} | {', '.join(links)}{more} |\n")
    return "".join(lines)


def _modules() -> Iterator[Path]:
    for name in _PACKAGES:
        home = Path(str(import_module(name).__file__)).parent
        yield from sorted(home.rglob("*.py"))


def _in_checkout(path: Path) -> str:
    """The path, below the checkout, of a module of an editable install."""
    for name, root in (("kpywire", "wire/"), ("kpystorage", "storage/"), ("kpybroker", "")):
        if name in path.parts:
            below = path.parts[len(path.parts) - 1 - path.parts[::-1].index(name) :]
            return root + "/".join(below)
    raise LookupError(path)
