"""franz-go: the tests of kgo, its client, that talk to a broker, and what kadm, its admin client, takes a broker for.

Its Go module carries the former, and go/guesses_test.go is ours. go/go.mod and go/go.sum pin the module. Each test is
one outcome with all that it runs inside.
"""

import json
import os
import re
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from foreign.outcomes import Outcomes
from foreign.packages import BUILD, call, needed

MODULE: Final = Path(__file__).parent / "go"
TALKS: Final = re.compile(
    r"newTestClient|tmpTopic|tmpGroup|testClientOpts|adm\(\)|testChain|asked\(t\)|ways\(\)|saramaConfig\("
)
"""The names through which a test reaches its broker."""
LIMIT_S = 1500


@dataclass(frozen=True, slots=True)
class FranzGo:
    """The tests of one Go package; ``records`` is how many each of kgo's large tests sends through."""

    name: str
    package: str
    broker: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 1
    secured: bool = False
    records: int = 20_000

    @property
    def _program(self) -> Path:
        return BUILD / self.name / "package.test"

    def prepare(self) -> None:
        self._program.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false"}
        call([needed("go"), "test", "-c", "-o", self._program, self.package], cwd=MODULE, env=environment)

    def run(self, bootstrap_servers: str, directory: Path, only: Collection[str] | None = None) -> Outcomes:
        sources = Path(call([needed("go"), "list", "-f", "{{.Dir}}", self.package], cwd=MODULE).strip())
        tests = sorted({test.partition("/")[0] for test in only}) if only else talking_tests(sources)
        environment = {
            **os.environ,
            "KGO_SEEDS": bootstrap_servers,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(self.records),
            "KGO_LOG_LEVEL": "none",
        }
        found = directory / "outcomes.jsonl"
        command = [needed("go"), "tool", "test2json", str(self._program), "-test.v=test2json"]
        chosen = ["-test.run", f"^({'|'.join(tests)})$", "-test.timeout", f"{LIMIT_S}s"]
        with open(found, "wb") as output, open(directory / "errors.log", "wb") as errors:
            subprocess.run(
                [*command, *chosen],
                cwd=sources,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                timeout=LIMIT_S + 60,
                check=False,
            )
        return read_events(found)


def talking_tests(sources: Path) -> list[str]:
    """The names of the tests whose text reaches for a broker."""
    names = set()
    for path in sources.glob("*_test.go"):
        for function in path.read_text().split("\nfunc ")[1:]:
            name = function.partition("(")[0]
            if name.startswith("Test") and TALKS.search(function):
                names.add(name)
    return sorted(names)


def read_events(path: Path) -> Outcomes:
    """The outcomes in what test2json wrote; a test that never ended has failed."""
    words: Final = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    outcomes, reported = Outcomes(), dict[str, str]()
    for line in path.read_text().splitlines():
        event = json.loads(line)
        test, action = event.get("Test"), event["Action"]
        if test is None:
            continue
        if action == "run":
            outcomes.add(test, "failed", "did not end")
        elif action == "output" and not event["Output"].lstrip().startswith(("===", "---")):
            reported[test] = event["Output"]
        elif action in words:
            outcomes.add(test, words[action], reported.get(test, ""))  # type: ignore[arg-type]
    return outcomes


FRANZ_GO: Final = FranzGo("franz-go", "github.com/twmb/franz-go/pkg/kgo")
KADM: Final = FranzGo("kadm", "kpybroker/foreign")
GO_SECURED: Final = FranzGo("go-secured", "kpybroker/foreign/secured", secured=True)
