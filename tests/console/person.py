"""A person at a browser, and a Kafka client that sees what the person has done."""

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from confluent_kafka import OFFSET_BEGINNING, Consumer, ConsumerGroupTopicPartitions, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from console_node import ConsoleNode

from support.browser import Browser


class Client:
    """A Kafka client of the node."""

    def __init__(self, node: ConsoleNode) -> None:
        self.server = f"127.0.0.1:{node.node.ports['PLAINTEXT']}"
        self.admin = AdminClient({"bootstrap.servers": self.server})

    def partitions(self, topic: str) -> int:
        """The number of partitions; 0 for a topic that does not exist."""
        found = self.admin.list_topics(timeout=30).topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (described,) = self.admin.describe_configs([resource]).values()
        return str(described.result(30)[name].value)

    def node_config(self, name: str) -> str:
        resource = ConfigResource(ResourceType.BROKER, "1")
        (described,) = self.admin.describe_configs([resource]).values()
        return str(described.result(30)[name].value)

    def position(self, group: str, topic: str) -> int | None:
        """The position of a group in the first partition of a topic."""
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
        (described,) = self.admin.list_consumer_group_offsets([wanted]).values()
        offset = described.result(30).topic_partitions[0].offset
        return None if offset < 0 else int(offset)

    def groups(self) -> dict[str, str]:
        """The states of all groups, by id."""
        found = self.admin.list_consumer_groups().result(30).valid
        return {each.group_id: each.state.name for each in found}

    def records(self, topic: str, count: int, *, committed: bool = False) -> list[Message]:
        """All records of a topic, when there are at least this many."""
        isolation = "read_committed" if committed else "read_uncommitted"
        settings = {"isolation.level": isolation, "enable.partition.eof": True, "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": self.server, "group.id": "of-the-test", **settings})
        found: list[Message] = []
        ended: set[int] = set()
        try:
            numbers = range(self.partitions(topic))
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
            while len(found) < count or len(ended) < len(numbers):
                message = consumer.poll(30)
                assert message is not None, f"{len(found)} of {count} records came"
                if message.error():
                    ended.add(message.partition())
                else:
                    found.append(message)
        finally:
            consumer.close()
        return found


class Person:
    """Somebody at a browser."""

    def __init__(self, browser: Browser, node: ConsoleNode, login: str = "") -> None:
        self.browser = browser
        self.node = node
        self.client = Client(node)
        self._here = f"http://{login}127.0.0.1:{node.node.http_port}"

    def address(self, page: str) -> str:
        return self._here + page

    def open(self, page: str) -> None:
        self.browser.open(self.address(page), theme="light")

    def press(
        self,
        action: str,
        button: str,
        texts: Mapping[str, str] | None = None,
        *,
        ticked: str = "",
        of_config: str = "",
        method: str = "post",
        status: int = 200,
    ) -> str:
        """Fill the form of an action, tick a box and press the button. Return the path of the page that follows."""
        form = form_of(method, action, button, of_config)
        if self.browser.run(f"{form}.closest('details:not([open])') !== null"):
            self.browser.click(f"{form}.closest('details').querySelector('summary')")
        for name, text in (texts or {}).items():
            self.browser.fill(f"{form}.elements.namedItem({json.dumps(name)})", text)
        if ticked:
            self.browser.click(f"{form}.elements.namedItem({json.dumps(ticked)})")
        pressed = f"[...{form}.querySelectorAll('button')].find((each) => each.textContent === {json.dumps(button)})"
        answered, address = self.browser.follow_click(pressed)
        assert answered == status, (action, answered, self.shown)
        return urlsplit(address).path

    @property
    def shown(self) -> str:
        """The text of the page."""
        return str(self.browser.run("document.getElementById('main').innerText"))

    @property
    def typed(self) -> list[str]:
        """The texts in the fields of the page."""
        return list(self.browser.run("[...document.querySelectorAll('input, textarea')].map((each) => each.value)"))

    @property
    def offered(self) -> set[str]:
        """The addresses of the forms of the page that change something."""
        script = (
            "[...document.forms].filter((each) => each.method === 'post').map((each) => new URL(each.action).pathname)"
        )
        return set(self.browser.run(script))


def form_of(method: str, action: str, button: str, of_config: str) -> str:
    """The script that finds a form with an address and a button; of several, the one of a config."""
    return f"""[...document.forms].find((form) => form.method === {json.dumps(method)}
      && new URL(form.action).pathname === {json.dumps(action)}
      && [...form.querySelectorAll("button")].some((each) => each.textContent === {json.dumps(button)})
      && ({json.dumps(of_config)} === "" || form.elements.namedItem("name").value === {json.dumps(of_config)}))"""
