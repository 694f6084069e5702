"""The files of a controller that ``kpybroker cluster voters add`` reads: its configuration and its directory's id."""

from pathlib import Path

import click

from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.config_def import ConfigError
from kpystorage import meta_properties
from kpystorage.errors import CorruptFile
from kpystorage.real_disk import RealDisk

Identity = tuple[int, bytes, tuple[tuple[str, str, int], ...]]


def read_controller(path: str) -> Identity:
    """The id of a controller, that of its metadata directory, and its listeners. click.UsageError without them."""
    try:
        config = BrokerConfig.load(Path(path))
        found = meta_properties.read(RealDisk(), str(Path(config.metadata_log_dir).absolute()))
    except (ConfigError, CorruptFile) as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"{config.metadata_log_dir}: {error.strerror}") from None
    if "controller" not in config["process.roles"]:
        raise click.UsageError(f"{path} is not the configuration of a controller: see process.roles")
    if found is None or found.directory_id is None:
        raise click.UsageError(f"{config.metadata_log_dir} is not formatted; start the controller first")
    listeners = config.advertised_controller_listeners
    return (
        config.node_id,
        found.directory_id,
        tuple((each.name, each.host or "localhost", each.port) for each in listeners),
    )
