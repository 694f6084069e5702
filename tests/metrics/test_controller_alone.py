"""A node that is a controller and no broker has the second port too, with what it knows."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scraped_node import Scrape

from oracle.process import free_port
from oracle.started import started

PROGRAM = [sys.executable, "-m", "kpybroker"]


@contextmanager
def controller(folder: Path, http_port: int) -> Iterator[None]:
    port = free_port()
    properties = folder / "controller.properties"
    properties.write_text(
        "process.roles=controller\nnode.id=5\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://127.0.0.1:{port}\ncontroller.quorum.voters=5@127.0.0.1:{port}\n"
        f"log.dirs={folder / 'data'}\n"
    )
    subprocess.run([*PROGRAM, "format", "-c", str(properties)], check=True, capture_output=True, timeout=60)
    with started([*PROGRAM, "start", str(properties), "--http", f"127.0.0.1:{http_port}"]):
        yield


def test_a_controller_shows_the_cluster_its_quorum_and_its_loop(tmp_path: Path) -> None:
    http_port = free_port()
    with controller(tmp_path, http_port):
        pages = {}
        for path in ("metrics", "live", "ready"):
            with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/{path}", timeout=60) as answer:
                assert answer.status == 200
                pages[path] = answer.read().decode()
    scrape = Scrape(pages["metrics"])
    assert scrape.value("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert scrape.value("kafka_controller_kafkacontroller_globaltopiccount") == 0
    assert scrape.value("kafka_server_raftmetrics_current_state", current_state="leader") == 1
    assert scrape.value("kafka_server_raftmetrics_current_leader") == 5
    assert scrape.value("kafka_server_raftmetrics_log_end_offset") > 0
    assert set(scrape.labelled("kpybroker_loop_lag_seconds", "quantile")) >= {"0.50", "0.999"}
    assert "CONTROLLER" in scrape.labelled("kafka_server_socket_server_metrics_connection_count", "listener")
    assert "kafka_server_kafkaserver_brokerstate" not in scrape.samples
    assert "process_cpu_seconds_total" in scrape.samples
