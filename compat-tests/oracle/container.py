"""Apache Kafka in a container, by testcontainers: the official image with the configuration that the jars run with.

It is an `ApacheKafka` whose process is in a container, so that tests see no difference: the same ports inside and
outside, the same directory at the same path, started by the image's own scripts. It needs a Docker engine on this
machine; `why_not` says in a line what is missing.
"""

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oracle.broker import CLUSTER_ID, ApacheKafka
from oracle.jars import KAFKA_VERSION
from oracle.process import HOST

IMAGE = f"apache/kafka:{KAFKA_VERSION}"
EVERYWHERE = "0.0.0.0"
SCRIPTS = "/opt/kafka/bin"


def why_not() -> str | None:
    """Why no container can be started here, in one line; None if one can."""
    from docker.errors import DockerException
    from testcontainers.core.docker_client import DockerClient

    try:
        DockerClient().client.ping()
    except (DockerException, OSError) as error:
        return f"no Docker engine answers: {str(error).splitlines()[0]}"
    return None


class ContainedProcess:
    """A container as the child process that `BrokerProcess` looks after."""

    def __init__(self, container: Any, output: Path) -> None:
        self._container = container
        self._output = output
        self.returncode: int | None = None

    @property
    def pid(self) -> int:
        """The process id on the machine, where its engine runs containers as processes of the machine."""
        self._container.reload()
        return int(self._container.attrs["State"]["Pid"])

    def poll(self) -> int | None:
        if self.returncode is None:
            self._container.reload()
            if self._container.status in ("exited", "dead"):
                self._ended(int(self._container.attrs["State"]["ExitCode"]))
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            try:
                answer = self._container.wait(timeout=timeout)
            except Exception as error:
                raise subprocess.TimeoutExpired("a container", timeout or 0.0) from error
            self._ended(int(answer["StatusCode"]))
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, sig: int) -> None:
        """SIGSTOP and SIGCONT by the engine, since the first process of a container may ignore them."""
        if sig == signal.SIGSTOP:
            self._container.pause()
        elif sig == signal.SIGCONT:
            self._container.reload()
            if self._container.status == "paused":
                self._container.unpause()
        elif self.poll() is None:
            self._container.kill(signal=signal.Signals(sig).name)

    def _ended(self, code: int) -> None:
        """Keep what it wrote, and let it go; its data is in the directory."""
        self.returncode = code
        with open(self._output, "ab") as output:
            output.write(self._container.logs())
        self._container.remove(v=True)


class ContainedKafka(ApacheKafka):
    """Takes what `ApacheKafka` takes; ``image`` may be another one with Kafka in ``/opt/kafka``."""

    program = "Apache Kafka in a container"
    image = IMAGE

    def __init__(self, properties: Mapping[str, str] | None = None, *, directory: Path) -> None:
        super().__init__(properties, directory=directory)
        self.properties["listeners"] = self.properties["listeners"].replace(HOST, EVERYWHERE)

    def prepare(self) -> None:
        self.write_properties()

    def described(self) -> Any:
        """testcontainers' description of the container, not started."""
        from testcontainers.core.container import DockerContainer

        container = DockerContainer(self.image)
        container.with_volume_mapping(str(self.directory), str(self.directory), "rw")
        for port in map(int, re.findall(r":(\d+)", self.properties["listeners"])):
            container.with_bind_ports(port, port)
        container.with_env("LOG_DIR", str(self.directory / "logs"))
        container.with_env("KAFKA_HEAP_OPTS", " ".join(each for each in self.jvm if each.startswith("-Xm")))
        formatted = f"{SCRIPTS}/kafka-storage.sh format --standalone --ignore-formatted -t {CLUSTER_ID}"
        notified = f"-c {self.properties_file}"
        started = f"exec {SCRIPTS}/kafka-server-start.sh {self.properties_file}"
        user = f"{os.getuid()}:{os.getgid()}"
        return container.with_kwargs(entrypoint=["sh", "-c", f"{formatted} {notified} && {started}"], user=user)

    def launch(self) -> None:
        if self.process is not None:
            raise RuntimeError(f"{self.program} runs already")
        self.process = ContainedProcess(self.described().start().get_wrapped_container(), self.output)

    def pause(self) -> None:
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)
