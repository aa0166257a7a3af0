"""A repaired wheel brings its libraries with it, and lives beside others that have them too."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

ROOT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])

# Reads a real stream before and after other users of gRPC, protobuf and absl are imported and used.
# It then says which of these libraries are mapped.
LIVES = '''
import importlib, json, re, sys

dataset, before, others = sys.argv[1], sys.argv[2] == "before", sys.argv[3].split(",")
sys.path.extend(sys.argv[4:])
pipeline = {"millrace": 1, "dataset": "data", "source": "proof_states",
            "batch": {"size": 16, "remainder": "keep"}}


def grpc_stream():
    import concurrent.futures, grpc
    handler = grpc.method_handlers_generic_handler("s", {
        "M": grpc.unary_stream_rpc_method_handler(lambda request, context: iter([request] * 50))})
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    stream = channel.unary_stream("/s/M")(b"x")
    assert next(stream) == b"x"
    return server, channel, stream


def flight_stream():
    import pyarrow, pyarrow.flight, threading

    class Server(pyarrow.flight.FlightServerBase):
        def do_get(self, context, ticket):
            table = pyarrow.table({"x": list(range(1000))})
            return pyarrow.flight.RecordBatchStream(table.to_reader(max_chunksize=10))

    server = Server("grpc://127.0.0.1:0")
    client = pyarrow.flight.connect(f"grpc://127.0.0.1:{server.port}")
    reader = client.do_get(pyarrow.flight.Ticket(b"t"))
    assert reader.read_chunk().data.num_rows == 10
    return server, client, reader


def use(name):
    if name == "grpc":
        return grpc_stream()
    if name == "pyarrow.flight":
        return flight_stream()
    module = importlib.import_module(name)
    return module.ones(3) if name == "torch" else module.constant([1, 2])


def system_libraries():
    names = set()
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[5].strip() if line.count("/") else ""
            if re.search(r"/(libgrpc|libgpr|libprotobuf|libabsl|libaddress_sorting|libupb)", path):
                names.add(path)
    return names


live = [] if before else [use(name) for name in others]
import millrace
session = millrace.local({"data": dataset}, pipeline)
steps = iter(session.next_epoch())
next(steps)
if before:
    live = [use(name) for name in others]
assert sum(1 for _ in steps) == len(session) - 1
for name, streams in zip(others, live):
    if name == "grpc":
        assert sum(1 for _ in streams[2]) == 49
    if name == "pyarrow.flight":
        assert streams[2].read_all().num_rows == 990
folder = millrace.__file__.rsplit("/", 2)[0]
print(json.dumps({"outside": sorted(p for p in system_libraries() if not p.startswith(folder)),
                  "inside": sorted(p for p in system_libraries() if p.startswith(folder + "/millrace"))}))
'''


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run([ROOT / "tests/python/with-build-folder",
                           os.environ.get("MILLRACE_BUILD_DIR", ""),
                           ROOT / "client/python/build-wheels", folder, sys.executable],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (made,) = folder.glob("*.whl")
    assert "manylinux" in made.name
    return made


@pytest.fixture(scope="session")
def fresh(wheel, tmp_path_factory):
    """A virtual environment with the wheel, and with others that bring gRPC of their own."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, wheel], check=True)
    subprocess.run([*pip, "grpcio", "pyarrow"], check=True)
    return folder / "bin/python"


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("others", ["grpc", "pyarrow.flight", "grpc,pyarrow.flight"])
def test_it_lives_beside_other_grpcs(fresh, dataset, order, others, tmp_path):
    done = subprocess.run([fresh, "-c", LIVES, dataset, order, others], capture_output=True,
                          text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    libraries = json.loads(done.stdout.splitlines()[-1])
    assert libraries["outside"] == [] and len(libraries["inside"]) > 5


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_it_lives_beside_frameworks(fresh, dataset, order, framework, tmp_path):
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    # The fresh environment has the wheel. This one has the framework, and comes behind it on the
    # path.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([fresh, "-W", "ignore", "-c", LIVES, dataset, order, framework,
                           sysconfig.get_path("purelib")], capture_output=True, text=True,
                          cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    libraries = json.loads(done.stdout.splitlines()[-1])
    assert len(libraries["inside"]) > 5


def test_the_programs_of_a_wheel_run(fresh, dataset, tmp_path):
    done = subprocess.run([fresh.parent / "millrace", "inspect", dataset, "--index",
                           tmp_path / "index"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "proof states" in done.stdout, done.stderr
