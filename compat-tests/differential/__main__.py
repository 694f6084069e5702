"""``python -m differential --seconds 600 --seed 1``: play random sequences on both brokers, print what differs.

Ends with 1 if anything did. ``--only SEED`` plays one seed and shrinks what it shows.
"""

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

from differential.coverage import table
from differential.error_paths import named_sequences
from differential.pair import Pair, both, both_secured, explain, findings


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m differential", description="Apache Kafka and kpybroker, compared.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="the first seed (the time, if not given)")
    parser.add_argument("--only", type=int, default=None, help="play this seed alone")
    parser.add_argument("--length", type=int, default=40, help="steps of a sequence")
    parser.add_argument("--shrink-seconds", type=float, default=60)
    parser.add_argument("--directory", type=Path, default=None, help="where the brokers work and write their logs")
    parser.add_argument("--secured", action="store_true", help="by a user over TLS and SCRAM, with an authorizer")
    asked = parser.parse_args()
    first = asked.seed if asked.seed is not None else int(time.time())
    with (
        tempfile.TemporaryDirectory(prefix="differential-") as directory,
        (both_secured if asked.secured else both)(asked.directory or Path(directory)) as pair,
    ):
        seeds = iter([asked.only]) if asked.only is not None else itertools.count(first)
        count = 0 if asked.only is not None else _paths(pair)
        for found in findings(pair, seeds, asked.seconds, asked.shrink_seconds, asked.length):
            count += 1
            print(f"\n{found.text}", flush=True)
        print(f"\n{pair.sequences} sequences, {pair.steps} steps from seed {first}: {count} differences")
        print("\n".join(table(pair.reached)))
        for name, times in pair.known.most_common():
            print(f"  known: {name}, {times} times")
    return min(count, 1)


def _paths(pair: Pair) -> int:
    count = 0
    seen = set()
    for steps in named_sequences().values():
        played = pair.play(steps)
        if played.at >= 0 and played.signature(steps) not in seen:
            seen.add(played.signature(steps))
            found = explain(pair, steps, played)
            print(f"\n{found.text if found else played.report(steps)}", flush=True)
            count += 1
    return count


if __name__ == "__main__":
    sys.exit(main())
