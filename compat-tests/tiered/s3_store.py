"""An S3 server on this machine behind a proxy of faults, and what is under way in it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from kpystorage.remote.keys import ObjectKind, ObjectName, parse_key
from oracle import free_port
from oracle.process import HOST, die_with_parent
from support.waiting import eventually
from tiered.s3_proxy import BAD, Faults, S3Proxy, S3Request

BUCKET: Final = "tiers"
PREFIX: Final = "kafka/"
KEY_ID, SECRET, REGION = "an-id", "a-secret", "us-east-1"
START_S: Final = 60.0


def s3_properties(url: str) -> dict[str, str]:
    """The settings of nodes whose store is the bucket. Calls give up soon, so that faults are seen."""
    configs = {
        "storage.backend.class": "io.aiven.kafka.tieredstorage.storage.s3.S3Storage",
        "storage.s3.bucket.name": BUCKET,
        "storage.s3.region": REGION,
        "storage.s3.endpoint.url": url,
        "storage.s3.path.style.access.enabled": "true",
        "storage.aws.access.key.id": KEY_ID,
        "storage.aws.secret.access.key": SECRET,
        "storage.s3.api.call.attempt.timeout": "5000",
        "storage.s3.api.call.timeout": "10000",
        "key.prefix": PREFIX,
    }
    return {f"rsm.config.{name}": value for name, value in configs.items()}


class S3Watch:
    """The segments that are being written or deleted, by what passes the proxy."""

    def __init__(self, proxy: S3Proxy) -> None:
        self._lock = Lock()
        self._torn: dict[bytes, ObjectName] = {}
        self._deleted: dict[str, int] = {}
        proxy.begins, proxy.ended = self._begins, self._ended

    def torn(self, topic: str) -> set[int]:
        """The partitions of which a segment is there in part."""
        with self._lock:
            return {each.segment.partition for each in self._torn.values() if each.segment.topic == topic}

    def deletions(self, topic: str) -> int:
        """How many objects of a topic were deleted."""
        with self._lock:
            return self._deleted.get(topic, 0)

    def _begins(self, request: S3Request) -> None:
        names = [name for key in request.keys if (name := parse_key(PREFIX, key)) is not None]
        with self._lock:
            for name in names:
                if request.method == "PUT" and name.kind is ObjectKind.LOG:
                    self._torn[name.segment.segment_id] = name
                elif request.method in ("POST", "DELETE"):
                    self._deleted[name.segment.topic] = self._deleted.get(name.segment.topic, 0) + 1
                    self._torn.pop(name.segment.segment_id, None)

    def _ended(self, request: S3Request) -> None:
        names = [name for key in request.keys if (name := parse_key(PREFIX, key)) is not None]
        with self._lock:
            for name in names:
                if request.method == "PUT" and name.kind is ObjectKind.MANIFEST:
                    self._torn.pop(name.segment.segment_id, None)


@contextmanager
def s3_server() -> Iterator[int]:
    """moto's server with an empty bucket; its port."""
    import boto3
    from botocore.exceptions import BotoCoreError

    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent
    )
    try:
        client = boto3.client(
            "s3",
            endpoint_url=f"http://{HOST}:{port}",
            region_name=REGION,
            aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET,
        )
        eventually(
            lambda: bool(client.create_bucket(Bucket=BUCKET)),
            "the S3 server",
            START_S,
            despite=(BotoCoreError, OSError),
        )
        yield port
    finally:
        process.kill()
        process.wait()


@contextmanager
def faulty_s3(seed: int, faults: Faults = BAD) -> Iterator[S3Proxy]:
    """A server with an empty bucket behind a proxy."""
    with s3_server() as port, S3Proxy(port, faults, seed) as proxy:
        yield proxy
