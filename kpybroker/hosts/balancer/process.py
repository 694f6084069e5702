"""The process of the balancer: ``python -m kpybroker.hosts.balancer.process PARENT``. It has one task, which it does
until it is killed."""

from collections.abc import Iterable, Iterator
from queue import SimpleQueue
from threading import Thread

from kpybroker.client.balancer import Balancer
from kpybroker.client.client import Client, ClientSettings
from kpybroker.client.protection import ConnectionProtection
from kpybroker.client.security import NO_SECURITY
from kpybroker.hosts.balancer.task import BalancerFailed, BalancerTask
from kpybroker.machines.balance.standing import BalancerStanding
from kpybroker.runtime.io.worker_process import run

Answer = BalancerStanding | BalancerFailed


def standings(task: BalancerTask) -> Iterator[Answer]:
    """The standings of a balancer, one after the other."""
    found: SimpleQueue[Answer] = SimpleQueue()
    Thread(target=_balance, args=(task, found), daemon=True).start()
    while True:
        answer = found.get()
        yield answer
        if isinstance(answer, BalancerFailed):
            return


def _balance(task: BalancerTask, found: "SimpleQueue[Answer]") -> None:
    protection = None if task.security == NO_SECURITY else ConnectionProtection(task.security)
    try:
        with Client(task.servers, settings=ClientSettings(protection=protection)) as client:
            Balancer(client, task.settings, found.put).run()
    except Exception as error:
        found.put(BalancerFailed(f"{type(error).__name__}: {error}"))


def main() -> None:
    """Do the task."""

    def work(task: BalancerTask) -> Iterable[object]:
        return standings(task)

    run(work, BalancerFailed)


if __name__ == "__main__":
    main()
