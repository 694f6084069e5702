"""Takes the pictures of the dashboards: ``make pictures``. Grafana's components draw them, without its server.

Three nodes in processes of their own serve producers, groups, a transaction that is open for a while and a query of
Spark. One of the nodes dies and comes back. Prometheus scrapes them all the while, and answers the query of each panel.
``shown.json`` says what each panel of the pictures shows.
"""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from grafana_page import FIGURES, SHOWN, THEMES, bundle, draw, served
from panels import MONITORING, dashboards, filled
from prometheus_server import Prometheus

from oracle import free_port
from support.browser import Browser
from support.clusters import Cluster, kpybroker_node
from support.spark_session import small_spark
from support.waiting import eventually

WARM_S, WATCHED_S = 60, 180
"""Quantiles are those of the last minute, so the first minute of all is not shown."""
STEP_S = 3
RATE_INTERVAL = f"{4 * STEP_S}s"
"""Four times the interval of scrapes, as Grafana chooses it."""
CHOSEN = {"instance": "node-1"}
"""The dashboard of a node is that of one; of all other variables all is chosen."""
TOPICS = {"orders": 6, "payments": 3, "clicks": 3}
VALUE = b"x" * 400


def producing(servers: str, stop: threading.Event) -> None:
    """Records that become more and fewer, as those of days and nights; some transactions, the last of them open."""
    plain = Producer({"bootstrap.servers": servers, "client.id": "shop", "linger.ms": 20})
    tills = Producer({"bootstrap.servers": servers, "client.id": "till", "transactional.id": "till-1"})
    tills.init_transactions()
    number = open_until = 0
    while not stop.wait(0.1):
        number += 1
        for topic, most in (("orders", 60), ("clicks", 90)):
            for _ in range(int(most * (1.3 + math.sin(number / 90 + len(topic))))):
                plain.produce(topic, VALUE, key=b"%d" % number)
        plain.poll(0)
        if number % 200 == 1 and not open_until:
            tills.begin_transaction()
            open_until = number + 120
        if open_until:
            tills.produce("payments", VALUE)
            tills.poll(0)
        if number == open_until:
            tills.commit_transaction()
            open_until = 0
    plain.flush(30)


def consuming(servers: str, group: str, topic: str, pause_s: float, stop: threading.Event, from_s: float = 0.0) -> None:
    """A member of a group; with a pause after each poll it is slow."""
    if stop.wait(from_s):
        return
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "client.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
        }
    )
    consumer.subscribe([topic])
    while not stop.wait(pause_s):
        consumer.consume(500, timeout=0.2)
    consumer.close()


def refused(servers: str, stop: threading.Event) -> None:
    """A client that asks for a partition which is not there, so that an answer has an error."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "lost", "client.id": "lost"})
    while not stop.wait(1.0):
        try:
            consumer.committed([TopicPartition("nowhere", 0)], timeout=5)
            consumer.list_topics("nowhere", timeout=5)
        except KafkaException:
            continue
    consumer.close()


@contextmanager
def traffic(servers: str, directory: Path) -> Iterator[None]:
    """All clients, each in a thread of its own, and Spark."""
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(name, count, 3) for name, count in TOPICS.items()]).values():
        made.result(30)
    stop = threading.Event()
    work: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (producing, (servers, stop)),
        (refused, (servers, stop)),
        (consuming, (servers, "billing", "orders", 0.0, stop)),
        (consuming, (servers, "billing", "orders", 0.0, stop, WATCHED_S / 2)),
        (consuming, (servers, "search", "clicks", 0.9, stop)),
    ]
    threads = [threading.Thread(target=function, args=words, daemon=True) for function, words in work]
    with small_spark(directory) as spark:
        rows = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        query = (
            rows.option("subscribe", "orders")
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(directory / "checkpoint"))
            .trigger(processingTime="4 seconds")
            .start()
        )
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
            query.stop()


def main() -> None:
    """Take all pictures."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as name:
        directory = Path(name)
        cluster = Cluster(kpybroker_node, directory, properties={"broker.session.timeout.ms": "6000"})
        addresses = {f"node-{number}": f"127.0.0.1:{free_port()}" for number in cluster.nodes}
        for number, node in cluster.nodes.items():
            node.properties["kpybroker.http.listener"] = addresses[f"node-{number}"]
        with (
            cluster,
            traffic(cluster.bootstrap_servers, directory),
            Prometheus(directory, addresses, f"{STEP_S}s") as prometheus,
        ):
            eventually(lambda: prometheus.now("count(up == 1) == 3"), "a scrape of all nodes")
            time.sleep(WARM_S + WATCHED_S * 0.6)
            cluster.nodes[3].kill()
            time.sleep(WATCHED_S * 0.1)
            cluster.start()
            time.sleep(WATCHED_S * 0.3)
            time.sleep((30 - time.time()) % 60)  # a full minute at the edge of a plot would have its label cut
            draw_all(prometheus, directory)


def draw_all(prometheus: Prometheus, directory: Path) -> None:
    """Take the pictures of all dashboards in both of Grafana's themes, and say what they show."""
    now_s = time.time() // STEP_S * STEP_S
    span = {"prometheus": prometheus.address, "from": now_s - WATCHED_S, "to": now_s, "step": STEP_S}
    record = {}
    with served(bundle()) as page, Browser(directory / "profile") as browser:
        for each in dashboards():
            dashboard = json.loads((MONITORING / f"{each.name}.json").read_text(encoding="utf-8"))
            for target in (target for panel in dashboard["panels"] for target in panel.get("targets", ())):
                target["expr"] = filled(target["expr"], RATE_INTERVAL, CHOSEN)
            for theme in THEMES:
                request = {
                    "dashboard": dashboard,
                    "chosen": {**CHOSEN, "datasource": "Prometheus"},
                    "theme": theme,
                    **span,
                }
                shown = draw(browser, page, request)
                empty = [panel["title"] for panel in dashboard["panels"] if not shown[panel["id"]]]
                assert not empty, f"{each.name}: no data in {empty}"
                (FIGURES / f"{each.name}-{theme}.png").write_bytes(browser.picture())
            record[each.name] = [[panel["title"], len(shown[panel["id"]])] for panel in dashboard["panels"]]
    SHOWN.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
