"""A Ray cluster of two nodes on this machine. Prints its address; each line that it reads kills a node."""

from __future__ import annotations

import sys

from ray.cluster_utils import Cluster

NODE = {"num_cpus": 1, "object_store_memory": 100 * 1024 * 1024, "include_dashboard": False}

cluster = Cluster(initialize_head=True, head_node_args=NODE)
other = cluster.add_node(**{name: value for name, value in NODE.items() if name != "include_dashboard"})
cluster.wait_for_nodes()
print(cluster.address, flush=True)
try:
    for _ in sys.stdin:
        cluster.remove_node(other, allow_graceful=False)
        print("killed", flush=True)
finally:
    cluster.shutdown()
