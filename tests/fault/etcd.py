"""A real etcd cluster of three nodes on loopback, used through its JSON gateway."""

import base64
import json
import shutil
import socket
import urllib.error
import urllib.request

from cluster import check, wait_for
from fault import Impossible


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Etcd:
    def __init__(self, cluster, extra=()):
        if shutil.which("etcd") is None:
            raise Impossible("etcd is not installed (Debian: etcd-server)")
        clients, peers = free_ports(3), free_ports(3)
        self.addresses = [f"127.0.0.1:{port}" for port in clients]
        initial = ",".join(f"n{i}=http://127.0.0.1:{port}" for i, port in enumerate(peers))
        self.nodes = [
            cluster.start(f"etcd-{i}", "etcd", "--name", f"n{i}", "--data-dir",
                          cluster.folder / f"etcd-{i}", "--listen-client-urls",
                          f"http://{self.addresses[i]}", "--advertise-client-urls",
                          f"http://{self.addresses[i]}", "--listen-peer-urls",
                          f"http://127.0.0.1:{peers[i]}", "--initial-advertise-peer-urls",
                          f"http://127.0.0.1:{peers[i]}", "--initial-cluster", initial, *extra)
            for i in range(3)]
        for node in self.nodes:
            node.ours = False
        wait_for(lambda: self.leader() is not None, "etcd elects no leader")

    @property
    def store(self):
        """The address for `millraced --store`."""
        return f"etcd://{','.join(self.addresses)}/millrace"

    def ask(self, node, path, request):
        """The answer of one node, or None."""
        try:
            with urllib.request.urlopen(f"http://{self.addresses[node]}{path}",
                                        json.dumps(request).encode(), timeout=5) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def leader(self):
        """The number of the node that says that it leads, or None."""
        for node in range(3):
            status = self.ask(node, "/v3/maintenance/status", {})
            if status and status.get("leader") == status["header"]["member_id"]:
                return node
        return None

    def fill(self):
        """Writes until there is no space left."""
        value = base64.b64encode(bytes(1 << 20)).decode()
        for number in range(10000):
            key = base64.b64encode(f"filler-{number}".encode()).decode()
            if self.ask(0, "/v3/kv/put", {"key": key, "value": value}) is None:
                return
        check(False, "etcd takes everything")
