"""A real etcd cluster of three nodes on loopback, used through its JSON gateway."""

import base64
import json
import shutil
import socket
import ssl
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
    """`tls`: a folder with a certificate for 127.0.0.1, with which clients then have to come."""

    def __init__(self, cluster, extra=(), tls=None):
        if shutil.which("etcd") is None:
            raise Impossible("etcd is not installed (Debian: etcd-server)")
        clients, peers = free_ports(3), free_ports(3)
        self.addresses = [f"127.0.0.1:{port}" for port in clients]
        self._http, self._etcd, self._context = "http", "etcd", None
        if tls:
            self._http, self._etcd = "https", "etcds"
            self._context = ssl.create_default_context(cafile=tls / "ca.crt")
            self._context.load_cert_chain(tls / "tls.crt", tls / "tls.key")
            extra = [*extra, "--cert-file", tls / "tls.crt", "--key-file", tls / "tls.key",
                     "--client-cert-auth", "--trusted-ca-file", tls / "ca.crt"]
        initial = ",".join(f"n{i}=http://127.0.0.1:{port}" for i, port in enumerate(peers))
        self.nodes = [
            cluster.start(f"etcd-{i}", "etcd", "--name", f"n{i}", "--data-dir",
                          cluster.folder / f"etcd-{i}", "--listen-client-urls",
                          f"{self._http}://{self.addresses[i]}", "--advertise-client-urls",
                          f"{self._http}://{self.addresses[i]}", "--listen-peer-urls",
                          f"http://127.0.0.1:{peers[i]}", "--initial-advertise-peer-urls",
                          f"http://127.0.0.1:{peers[i]}", "--initial-cluster", initial, *extra)
            for i in range(3)]
        for node in self.nodes:
            node.ours = False
        wait_for(lambda: self.leader() is not None, "etcd elects no leader")

    @property
    def store(self):
        """The address for `millraced --store`."""
        return f"{self._etcd}://{','.join(self.addresses)}/millrace"

    def ask(self, node, path, request):
        """The answer of one node, or None."""
        try:
            with urllib.request.urlopen(f"{self._http}://{self.addresses[node]}{path}",
                                        json.dumps(request).encode(), timeout=5,
                                        context=self._context) as answer:
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
