"""``python -m kpybroker.config [server.properties]``: print the configs from that file and from the environment's
KAFKA_... variables together, as a server.properties. The container image writes its configuration this way."""

import os
import sys
from pathlib import Path

from kpybroker.config.environment import SECRETS, from_environment
from kpybroker.config.properties import read_properties, written_properties
from kpybroker.machines.config_def import ConfigError

try:
    given = {key: entry.value for path in sys.argv[1:2] for key, entry in read_properties(Path(path)).items()}
    configured = from_environment(os.environ, Path(os.environ.get("KPYBROKER_SECRETS", SECRETS)))
except ConfigError as error:
    sys.exit(f"kpybroker: {error}")
sys.stdout.write(written_properties({**given, **configured}))
