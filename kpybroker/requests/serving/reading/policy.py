"""The policies of a `kpybroker.requests.serving.reading.reader.Reader`: for whom it reads. See
`kpybroker.requests.serving.reading`.

The policies are listed instead of described by a protocol, since compiled code calls their methods directly then.
"""

from kpybroker.requests.serving.reading.client import ClientRead
from kpybroker.requests.serving.reading.replica import ReplicaRead

Policy = ClientRead | ReplicaRead
