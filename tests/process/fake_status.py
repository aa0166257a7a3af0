"""A status of any size, and a server that shows it with the files of the page as a daemon does."""

import http.server
import json
import pathlib
import random
import threading
import time

PAGE = pathlib.Path(__file__).resolve().parents[2] / "server" / "web" / "page"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript",
         ".svg": "image/svg+xml"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
          "img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'")
CAUSES = ["BUILD", "QUEUE", "PYTHON", "TRANSFER", "CONNECT", "LEASE", "ATTACH", "EXPAND", "SLOT"]


def number(n):
    return {"term": "7", "n": str(n)}


def desired(present, workers):
    return {"workers": workers, "present": present, "demand_batches_per_second": 41.7,
            "worker_batches_per_second": 9.8, "reserve": 0.2,
            "arithmetic": "41.7 batches/s x 1.2 / 9.8 a worker = 5.11: 6 workers; 4 are there"}


def fake_status(consumers, jobs=None, workers=None, at=1000.0, decisions=0):
    """The status of a dispatcher that is up for `at` seconds. The same arguments give the same."""
    chance = random.Random(consumers)
    jobs = min(consumers, 20) if jobs is None else jobs
    workers = (min(consumers, 64) + 1) // 2 if workers is None else workers
    names = [f"train-{i}" if jobs > 1 else "train" for i in range(jobs)]
    tuning = {"settings": [{"name": "window", "value": 8, "least": 1, "most": 64, "pinned": False}],
              "decisions": [{"number": str(i + 1), "age_seconds": 9.5 * i, "setting": "window",
                             "from": 4, "to": 8, "waited_for": "build", "rate_before": 10.5,
                             "waiting_before": 0.2, "rate_after": 12.5, "waiting_after": 0.1,
                             "outcome": "kept"} for i in range(decisions)]}
    rows = []
    for i in range(consumers):
        cause = chance.choice(CAUSES[:4] + ["UNSPECIFIED"] * 3)
        share = chance.random() * 0.4
        waited = [{"cause": f"WAIT_{c}", "seconds": round(at * share * part, 3)}
                  for c, part in zip(CAUSES, (0.5, 0.2, 0.05, 0.15, 0.01, 0.04, 0.01, 0.03, 0.01))]
        rows.append({
            "job": names[i % jobs], "rank": i // jobs, "replica": 0,
            "where": f"gpu-{i // 8:03}:{4000 + i}", "session": number(i + 1), "state": "live",
            "next": {"epoch": "3", "example": str(512 * i)}, "step": str(12000 + i),
            "buffered_batches": chance.randrange(0, 17),
            "buffered_bytes": str(chance.randrange(0, 60_000_000)),
            "list": 8, "list_used": 3, "asked": 14, "built": 2, "due_seconds": 0,
            "waited_seconds": round(at * share, 3), "waited_last_minute_seconds": round(60 * share, 3),
            "now": {"cause": "WAIT_CAUSE_UNSPECIFIED" if cause == "UNSPECIFIED" else f"WAIT_{cause}",
                    "worker": number(10_001 + i % max(workers, 1)),
                    "worker_address": f"10.0.1.{i % max(workers, 1)}:7701",
                    "stage": "closure" if cause == "BUILD" else "",
                    "since_seconds": round(chance.random() * 2, 2)},
            "waited": waited, "why": "", "counted_seconds": at, "failing": [],
            "grants": {"window": 16, "credit_bytes": "12000000"},
            "counters": {"batches": str(int(at * 4.2)), "examples": str(int(at * 4.2) * 512),
                         "bytes": str(int(at * 4.2) * 180_000), "dropped": [], "waited": waited,
                         "duplicates": "0", "duplicate_mismatches": "0", "asks_first": "0",
                         "asks_copy": "0", "asks_moved": "0", "moved_failed": "0",
                         "moved_drained": "0", "moved_refused": "0"},
            "tuning": tuning})
    return {
        "version": "0.1.0", "uptime_seconds": at, "term": "7", "address": "10.0.0.1:7700",
        "datasets": {"stdlib": {
            "digest": "9f86d081884c7d659a2feaa0c55ad015", "verifying": 0, "error": "", "files": "503",
            "examples": "1034255", "file_list": [], "left_out_files": "0", "left_out": [],
            "kind": "graph", "unverified": 0.003, "in_memory_bytes": "0"}} if jobs else {},
        "jobs": [{
            "name": name, "fingerprint": "4bf92f3577b34da6a3ce929d0e0e4736", "state": "live",
            "world_size": (consumers + jobs - 1 - i) // jobs, "next": {"epoch": "3", "example": "51200"},
            "step": str(12000 + 40 * i), "steps_per_epoch": "40000",
            "progress": round(0.3 + 0.03 * i, 3), "eta_seconds": 4000 - 100 * i,
            "batches_per_second": 33.6, "bytes_per_second": 6_048_000, "examples_per_second": 17203.2,
            "tokens_per_second": 0.0, "tokens": "0", "pieces_lost": [], "dropped": [], "left_out_per_epoch": "12", "pipeline_yaml": "", "variant": "", "error": "",
            "started_unix_seconds": "1795000000", "ended_unix_seconds": "0", "why": "", "branches": [],
            "owner": "", "desired_workers": desired(4, 6), "outcome": "", "ended_by": ""} for i, name in enumerate(names)],
        "workers": [{
            "id": number(10_001 + i), "name": f"cpu-{i:02}:811", "address": f"10.0.1.{i}:7701",
            "state": "ready" if i != 1 else "draining", "why": "", "slots": 16, "owed": 4,
            "idle": "" if i % 2 else "no step in reach",
            "queue_seconds": 0.35, "buffered_bytes": str(20_000_000 + 9_000_000 * i),
            "memory_limit_bytes": "536870912", "streams": 8,
            "build": [{"stage": "closure", "seconds": round(at * 2.1, 3), "count": "42000"},
                      {"stage": "shuffle", "seconds": round(at * 0.11, 3), "count": "42000"},
                      {"stage": "batch", "seconds": round(at * 0.32, 3), "count": "42000"}],
            "send_blocked_seconds": round(at * 0.08, 3), "datasets": {}, "version": "0.1.0",
            "threads": 8, "sent_batches": str(int(at * 9.1)), "sent_bytes": str(int(at * 9.1) * 180_000),
            "counted_seconds": at, "shared_batches": "0", "plugins": [], "tuning": tuning}
            for i in range(workers)],
        "consumers": rows, "store_error": "",
        "desired_workers": desired(4, 6) if jobs else None,
        "events": [
            {"number": "1", "age_seconds": 380.2, "kind": "worker_lost", "count": 1, "job": "",
             "peer": "cpu-03:811", "text": "nothing came from it for 3 s"},
            {"number": "2", "age_seconds": 379.9, "kind": "steps_moved", "count": 14,
             "job": "train", "peer": "", "text": "steps were taken back from workers"}] if jobs else [],
    }


class FakeDaemon:
    """Serves the page and a status that goes on with time."""

    def __init__(self, **arguments):
        began = time.monotonic()
        outer = self
        self.arguments = arguments
        self.change = lambda status: status
        self.asked = 0  # how often for the status

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = PAGE / (self.path.lstrip("/") or "index.html")
                if self.path == "/status.json":
                    outer.asked += 1
                    status = fake_status(at=1000 + time.monotonic() - began, **outer.arguments)
                    self.answer("application/json", json.dumps(outer.change(status)).encode())
                elif path.is_file():
                    self.answer(TYPES[path.suffix], path.read_bytes())
                else:
                    self.send_error(404)

            def answer(self, kind, body):
                self.send_response(200)
                for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))),
                                    ("Content-Security-Policy", POLICY)):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
