"""Ray: daemons as actors, which are killed, and sessions of ray.train."""

import json
import os
import pathlib
import signal
import sys
import tempfile
import time

import pytest
from conftest import digest, pipeline, run
from patience import WHOLE_TEST, tries
from test_docs import run_cells

import millrace

ray = pytest.importorskip("ray")
pytest.importorskip("ray.train")



@pytest.fixture(scope="module")
def cluster():
    """A cluster of Ray on this machine, which has more CPUs for Ray than it has."""
    os.environ["RAY_AUTH_MODE"] = "disabled"  # there is nobody else on it
    os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = str(WHOLE_TEST)
    # Workers cannot import this module: its functions travel whole.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False,
             _system_config={"prestart_worker_first_driver": False, "worker_niceness": 0})
    yield
    ray.shutdown()


@pytest.fixture
def fleet(cluster, dataset):
    with millrace.ray.start({"data": dataset}, workers=2) as made:
        yield made


def wait_for(condition, what):
    for _ in tries(pause=0.05):
        if found := condition():
            return found
    pytest.fail(what)


def workers(fleet):
    """The names of the ready workers, which say their processes."""
    status = json.loads(run("status", "--address", fleet.address, "--format", "json"))
    return {worker["name"] for worker in status.get("workers", []) if worker["state"] == "ready"}


def training(config):
    """What each worker of ray.train runs: writes a line for each batch, slowly at first."""
    folder = pathlib.Path(config["folder"])
    with millrace.ray.connect(config["fleet"], pipeline=config["pipeline"], packed=True) as session:
        rank = session.describe()["millrace/rank"]
        with open(folder / f"rank-{rank}", "w", buffering=1) as log:
            for epoch in session.epochs(2):
                for _, batch in epoch:
                    if not (folder / "all were killed").exists():
                        time.sleep(1)
                    line = {"epoch": epoch.number, "ordinal": batch.ordinal, "hash": batch.digest}
                    log.write(json.dumps(line) + "\n")


def failing_training(config):
    """Another one, with a checkpoint an epoch. Rank 1 fails once, in the second epoch."""
    from ray import train

    folder = pathlib.Path(config["folder"])
    found = train.get_checkpoint()
    state = json.loads(pathlib.Path(found.path, "session").read_text()) if found else None
    with millrace.ray.connect(config["fleet"], pipeline=config["pipeline"], packed=True,
                              cursor=state) as session:
        rank = session.describe()["millrace/rank"]
        with open(folder / f"rank-{rank}", "a", buffering=1) as log:
            for epoch in session.epochs(2):
                for step, batch in epoch:
                    if epoch.number == 1 and step == 3 and rank == 1 and not found:
                        raise RuntimeError("planted")
                    line = {"epoch": epoch.number, "ordinal": batch.ordinal, "hash": batch.digest}
                    log.write(json.dumps(line) + "\n")
                with tempfile.TemporaryDirectory() as made:
                    pathlib.Path(made, "session").write_text(json.dumps(session.state_dict()))
                    train.report({}, checkpoint=train.Checkpoint(made))


@ray.remote(num_cpus=0)
def fit(function, config):
    """Trains with two workers. It is a task, so that the test can do something meanwhile."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    DataParallelTrainer(
        function, train_loop_config=config, scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="ranks", storage_path=str(config["folder"]),
                             failure_config=FailureConfig(max_failures=1))).fit()


def lines(folder):
    return [json.loads(line) for path in folder.glob("rank-*")
            for line in path.read_text().splitlines()]


def expected(dataset, folder):
    return sorted((epoch, line["ordinal"], line["hash"]) for epoch in (0, 1)
                  for line in digest(dataset, pipeline(), epoch, world_size=2, folder=folder))


def test_a_training_goes_on_when_actors_are_killed(fleet, dataset, tmp_path):
    """A worker's actor, a worker's daemon, and the dispatcher's actor."""
    config = {"fleet": fleet.address, "pipeline": pipeline(), "folder": str(tmp_path)}
    done = fit.remote(training, config)

    def begun():
        if ray.wait([done], timeout=0)[0]:
            ray.get(done)
        return len(list(tmp_path.glob("rank-*"))) == 2 and len(lines(tmp_path)) > 2

    wait_for(begun, "the training does not begin")
    known = workers(fleet)
    assert len(known) == 2
    ray.kill(fleet.workers[0], no_restart=False)
    wait_for(lambda: len(workers(fleet) - known) == 1 and len(workers(fleet)) == 2,
             "the worker whose actor was killed does not come back")
    known |= workers(fleet)
    os.kill(ray.get(fleet.workers[1].pid.remote()), signal.SIGKILL)
    wait_for(lambda: len(workers(fleet) - known) == 1 and len(workers(fleet)) == 2,
             "the worker whose daemon was killed does not come back")
    ray.kill(fleet.dispatcher, no_restart=False)
    assert ray.get(fleet.dispatcher.address.remote()) == fleet.address
    still = ray.wait([done], timeout=0)[1]
    (tmp_path / "all were killed").touch()
    ray.get(done)
    assert still, "the training had ended before all were killed"
    assert sorted((line["epoch"], line["ordinal"], line["hash"]) for line in lines(tmp_path)) \
        == expected(dataset, tmp_path)


def test_a_rank_that_fails_starts_all_from_the_checkpoint(fleet, dataset, tmp_path):
    config = {"fleet": fleet.address, "pipeline": pipeline(), "folder": str(tmp_path)}
    ray.get(fit.remote(failing_training, config))
    found = [(line["epoch"], line["ordinal"], line["hash"]) for line in lines(tmp_path)]
    wanted = expected(dataset, tmp_path)
    assert sorted(set(found)) == wanted
    # The first epoch came once; the steps of the second that the failure lost came again.
    assert sorted(line for line in found if line[0] == 0) == [w for w in wanted if w[0] == 0]
    assert len(found) > len(wanted)


def test_a_fleet_grows_and_shrinks_and_ends(fleet):
    fleet.resize(3)
    wait_for(lambda: len(workers(fleet)) == 3, "no third worker")
    fleet.resize(1)
    wait_for(lambda: len(workers(fleet)) == 1, "workers are left")
    with pytest.raises(millrace.ConfigError, match="workers=-1"):
        fleet.resize(-1)
    processes = [ray.get(actor.pid.remote()) for actor in [fleet.dispatcher, *fleet.workers]]
    fleet.close()
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in processes),
             "daemons are left")


def test_a_fleet_joins_a_dispatcher_that_runs(cluster, dataset, server):
    with millrace.ray.start({"data": dataset}, dispatcher=server.address) as joined:
        assert joined.dispatcher is None and joined.address == server.address
        wait_for(lambda: len(workers(joined)) == 2, "the worker does not join")


def test_with_certificates_the_fleet_serves_other_nodes(cluster, dataset, tmp_path):
    run("certs", tmp_path / "tls")
    with millrace.ray.start({"data": dataset}, tls=tmp_path / "tls") as secured:
        assert secured.address.split(":")[0] == ray.util.get_node_ip_address()
        with millrace.connect(secured.address, pipeline=pipeline(), job="secured",
                              tls=str(tmp_path / "tls" / "trainer")) as session:
            assert next(iter(session.next_epoch()))[0] == 0


def test_what_cannot_be_is_said(cluster, dataset):
    with pytest.raises(millrace.ConfigError, match="expected folders by dataset id"):
        millrace.ray.start([dataset])
    with pytest.raises(millrace.ConfigError, match="expected without tls"):
        millrace.ray.start({"data": dataset}, tls="/tls", insecure=True)
    with pytest.raises(Exception, match="is no folder that can be read"):
        millrace.ray.start({"data": "/no/such/folder"})
    with pytest.raises(millrace.ConfigError, match="ray.train says which rank"):
        millrace.ray.connect("127.0.0.1:7700", pipeline=pipeline(), rank=0, world_size=1)
    with pytest.raises(millrace.JobError, match="in a worker of ray.train"):
        millrace.ray.connect("127.0.0.1:7700", pipeline=pipeline())


def test_the_cells_of_the_page_run(cluster, tmp_path):
    pytest.importorskip("torch")
    run("generate", "--kind", "graph", tmp_path / "data", "--nodes", 4000)
    names = {"__name__": "__main__", "data": str(tmp_path / "data")}
    assert run_cells("guides/ray.md", names) == 2
    assert names["result"].metrics == {"epoch": 1, "steps": 4000 // 64 // 2}
