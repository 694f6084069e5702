#!/usr/bin/env python3
"""Kafka's tools of everyday, as scripts and health checks call them in a container: what they mean for `kpybroker`.

Linked under the names in `TOOLS`, with and without .sh. An option that is not understood is an error, never ignored.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Words = list[str]
SUFFIX = ".sh"


def parser(tool: str) -> argparse.ArgumentParser:
    """The options that all tools understand."""
    options = argparse.ArgumentParser(tool, allow_abbrev=False)
    options.add_argument("--bootstrap-server", "--broker-list", required=True)
    return options


def actions(options: argparse.ArgumentParser, *names: str) -> None:
    group = options.add_mutually_exclusive_group(required=True)
    for name in names:
        group.add_argument(f"--{name}", action="store_true")


def each(option: str, values: Words | None) -> Words:
    """An option once for each value."""
    return [word for value in values or () for word in (option, value)]


def one(option: str, value: str | None) -> Words:
    return [] if value is None else [option, value]


def flag(name: str, given: bool) -> Words:
    return [name] if given else []


def properties(pairs: Words | None) -> dict[str, str]:
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs or ())}


def topics(tool: str, words: Words) -> Words:
    options = parser(tool)
    actions(options, "create", "list", "describe", "delete", "alter")
    options.add_argument("--topic", action="append")
    options.add_argument("--partitions")
    options.add_argument("--replication-factor")
    options.add_argument("--config", action="append")
    options.add_argument("--if-not-exists", action="store_true")
    options.add_argument("--if-exists", action="store_true")
    options.add_argument("--exclude-internal", action="store_true")
    found = options.parse_args(words)
    server = ["-b", found.bootstrap_server]
    if found.list:
        return ["topics", "list", "--json", *flag("--internal", not found.exclude_internal), *server]
    if not found.topic and not found.describe:
        options.error("--topic is missing")
    names = found.topic or []
    if found.create:
        wanted = each("--config", found.config) + flag("--if-not-exists", found.if_not_exists)
        wanted += one("--partitions", found.partitions)
        wanted += one("--replication-factor", found.replication_factor)
        return ["topics", "create", *names, *wanted, *server]
    if found.alter:
        return ["topics", "alter", names[0], *one("--partitions", found.partitions), *server]
    if found.delete:
        return ["topics", "delete", *names, *flag("--if-exists", found.if_exists), *server]
    return ["topics", "describe" if names else "list", *names, *server]


def console_producer(tool: str, words: Words) -> Words:
    options = parser(tool)
    options.add_argument("--topic", required=True)
    options.add_argument("--property", "--reader-property", action="append", dest="properties")
    options.add_argument("--compression-codec", nargs="?", const="gzip")
    found = options.parse_args(words)
    said = properties(found.properties)
    wanted = one("-z", found.compression_codec)
    if said.get("parse.key") == "true":
        wanted.append("-K" + said.get("key.separator", "\t"))
    return ["produce", found.topic, *wanted, "-b", found.bootstrap_server]


def console_consumer(tool: str, words: Words) -> Words:
    options = parser(tool)
    options.add_argument("--topic", required=True)
    options.add_argument("--from-beginning", action="store_true")
    options.add_argument("--max-messages")
    options.add_argument("--timeout-ms")
    options.add_argument("--group")
    options.add_argument("--partition")
    options.add_argument("--offset")
    options.add_argument("--property", "--formatter-property", action="append", dest="properties")
    found = options.parse_args(words)
    said = properties(found.properties)
    start = {"earliest": "start", "latest": "end"}.get(found.offset, found.offset)
    wanted = ["-o", start or ("start" if found.from_beginning else "end")]
    wanted += one("-c", found.max_messages) + one("--timeout-ms", found.timeout_ms)
    wanted += one("--group", found.group)
    wanted += one("-p", found.partition)
    if said.get("print.key") == "true":
        wanted.append("-K" + said.get("key.separator", "\t"))
    return ["consume", found.topic, *wanted, "-b", found.bootstrap_server]


def consumer_groups(tool: str, words: Words) -> Words:
    options = parser(tool)
    actions(options, "list", "describe", "delete", "reset-offsets", "delete-offsets")
    options.add_argument("--group", action="append")
    for name in ("all-groups", "all-topics", "members", "state", "offsets", "execute", "dry-run", "export"):
        options.add_argument(f"--{name}", action="store_true")
    for name in ("to-earliest", "to-latest", "to-current"):
        options.add_argument(f"--{name}", action="store_true")
    for name in ("to-offset", "shift-by", "to-datetime", "by-duration", "from-file"):
        options.add_argument(f"--{name}")
    options.add_argument("--topic", action="append")
    found = options.parse_args(words)
    server = ["-b", found.bootstrap_server]
    names = ("list", "describe", "delete", "reset_offsets", "delete_offsets")
    action = next(name for name in names if getattr(found, name))
    if action == "list":
        return ["groups", "list", "--json", *server]
    wanted = each("--group", found.group) + each("--topic", found.topic)
    for name in ("all-groups", "all-topics", "members", "state", "offsets", "execute", "dry-run", "export"):
        wanted += flag(f"--{name}", getattr(found, name.replace("-", "_")))
    for name in ("to-earliest", "to-latest", "to-current"):
        wanted += flag(f"--{name}", getattr(found, name.replace("-", "_")))
    for name in ("to-offset", "shift-by", "to-datetime", "by-duration", "from-file"):
        wanted += one(f"--{name}", getattr(found, name.replace("-", "_")))
    return ["groups", action.replace("_", "-"), *wanted, *server]


def configs(tool: str, words: Words) -> Words:
    options = parser(tool)
    actions(options, "describe", "alter")
    options.add_argument("--entity-type", required=True)
    options.add_argument("--entity-name")
    options.add_argument("--entity-default", action="store_true")
    options.add_argument("--add-config", action="append")
    options.add_argument("--delete-config", action="append")
    options.add_argument("--all", action="store_true")
    found = options.parse_args(words)
    wanted = ["--entity-type", found.entity_type]
    wanted += one("--entity-name", found.entity_name)
    wanted += flag("--entity-default", found.entity_default) + flag("--all", found.all)
    wanted += each("--add-config", found.add_config) + each("--delete-config", found.delete_config)
    return ["configs", "describe" if found.describe else "alter", *wanted, "-b", found.bootstrap_server]


def acls(tool: str, words: Words) -> Words:
    options = parser(tool)
    actions(options, "add", "list", "remove")
    repeatable = ("topic", "group", "transactional-id", "delegation-token", "user-principal")
    of_acls = ("allow-principal", "deny-principal", "allow-host", "deny-host", "operation")
    for name in (*repeatable, *of_acls, "principal"):
        options.add_argument(f"--{name}", action="append")
    for name in ("cluster", "producer", "consumer", "idempotent", "force"):
        options.add_argument(f"--{name}", action="store_true")
    options.add_argument("--resource-pattern-type", type=str.lower)
    found = options.parse_args(words)
    wanted = flag("--cluster", found.cluster) + one("--resource-pattern-type", found.resource_pattern_type)
    for name in repeatable:
        wanted += each(f"--{name}", getattr(found, name.replace("-", "_")))
    server = ["-b", found.bootstrap_server]
    if found.list:
        return ["acls", "list", *wanted, *each("--principal", found.principal), *server]
    for name in of_acls:
        wanted += each(f"--{name}", getattr(found, name.replace("-", "_")))
    for name in ("producer", "consumer", "idempotent"):
        wanted += flag(f"--{name}", getattr(found, name))
    return ["acls", "add" if found.add else "remove", *wanted, *server]


def get_offsets(tool: str, words: Words) -> Words:
    options = parser(tool)
    options.add_argument("--topic", action="append")
    options.add_argument("--time")
    found = options.parse_args(words)
    when = {"-1": "latest", "-2": "earliest", "-3": "max-timestamp", None: "latest"}.get(found.time, f"@{found.time}")
    when = found.time if found.time in ("latest", "earliest", "max-timestamp") else when
    return ["offsets", "get", *(found.topic or []), "--time", when, "-b", found.bootstrap_server]


def broker_api_versions(tool: str, words: Words) -> Words:
    return ["cluster", "brokers", "-b", parser(tool).parse_args(words).bootstrap_server]


TOOLS: dict[str, Callable[[str, Words], Words]] = {
    "kafka-acls": acls,
    "kafka-topics": topics,
    "kafka-console-producer": console_producer,
    "kafka-console-consumer": console_consumer,
    "kafka-consumer-groups": consumer_groups,
    "kafka-configs": configs,
    "kafka-get-offsets": get_offsets,
    "kafka-broker-api-versions": broker_api_versions,
}


NAMED_BY = {"topics": "name", "groups": "group"}
"""Kafka's tools list nothing but names; what these are called in our JSON."""


def main() -> None:
    tool = Path(sys.argv[0]).name.removesuffix(SUFFIX)
    if tool not in TOOLS:
        sys.exit(f"{tool}: linked under a name that is none of {', '.join(TOOLS)}")
    command = ["kpybroker", *TOOLS[tool](tool, sys.argv[1:])]
    if command[2:4] != ["list", "--json"]:
        os.execvp("kpybroker", command)
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    for entry in json.loads(done.stdout):
        print(entry[NAMED_BY[command[1]]])


if __name__ == "__main__":
    main()
