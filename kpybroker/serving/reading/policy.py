"""The policies of a `kpybroker.serving.reading.reader.Reader`: for whom it reads. See `kpybroker.serving.reading`.

The policies are listed instead of described by a protocol, since compiled code calls their methods directly then.
"""

from kpybroker.serving.reading.client import ClientRead
from kpybroker.serving.reading.replica import ReplicaRead

Policy = ClientRead | ReplicaRead
