"""GraphSAGE learns from Millrace's neighbourhoods what it learns from PyG's, and a killed training goes
on bit for bit where it was."""

import pathlib
import statistics

import numpy
import pytest
from conftest import run
from trainings import check_that_it_goes_on

import millrace

torch = pytest.importorskip("torch")
geometric = pytest.importorskip("torch_geometric")
import sage  # noqa: E402 needs both

SEEDS = range(5)
EPOCHS = 4


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A graph with classes that a node's neighbours show better than its own features."""
    folder = tmp_path_factory.mktemp("sage") / "g"
    run("generate", "--kind", "graph", "--model", "rmat", folder, "--nodes", 4000, "--edges", 40000,
        "--features", 16, "--classes", 8, "--rows", "target", "--roots", 1600)
    return folder


def whole_graph(folder):
    """The Data of a dataset, and its lists of roots."""
    arrays = {path.relative_to(folder).with_suffix("").as_posix(): torch.from_numpy(numpy.load(path))
              for path in folder.rglob("*.npy")}
    targets = torch.repeat_interleave(arrays["indptr"].diff())
    data = geometric.data.Data(x=arrays["node_feature/x"], y=arrays["node_feature/y"],
                               edge_index=torch.stack([arrays["indices"].long(), targets]))
    return data, arrays["roots/train"].long(), arrays["roots/test"].long()


def from_millrace(folder, seed):
    pipeline = {**sage.PIPELINE, "shuffle": {"seed": seed},
                "closure": {**sage.PIPELINE["closure"], "seed": seed}}
    session = millrace.reference(pipeline, folder, index_dtype="int64")
    for epoch in session.epochs(EPOCHS):
        for _, batch in epoch:
            yield millrace.pyg.to_data(batch, session.spec)


def from_pyg(data, train, seed):
    del seed  # torch's is set
    loader = geometric.loader.NeighborLoader(data, sage.PIPELINE["closure"]["fanout"], train,
                                             batch_size=sage.PIPELINE["batch"]["size"], shuffle=True,
                                             drop_last=True)
    for _ in range(EPOCHS):
        yield from loader


def accuracy(batches, data, test, seed):
    """Of a network that has seen these batches, on nodes that it was not trained on."""
    torch.manual_seed(seed)
    model = sage.network(data.x.shape[1], 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for batch in batches:
        sage.step(optimizer, sage.loss_of(model, batch))
    with torch.no_grad():
        found = model.eval()(data.x, data.edge_index).argmax(1)
    return (found[test] == data.y[test]).double().mean().item()


def test_it_learns_as_well_as_from_pygs_own_sampler(planted, capsys):
    if not (geometric.typing.WITH_PYG_LIB or geometric.typing.WITH_TORCH_SPARSE):
        pytest.skip("PyG has no sampler without pyg_lib or torch_sparse")
    torch.set_num_threads(1)
    data, train, test = whole_graph(planted)
    ours = [accuracy(from_millrace(planted, seed), data, test, seed) for seed in SEEDS]
    theirs = [accuracy(from_pyg(data, train, seed), data, test, seed) for seed in SEEDS]
    with capsys.disabled():
        print(f"\naccuracy from Millrace {ours}, from NeighborLoader {theirs}")
    noise = statistics.stdev(ours) + statistics.stdev(theirs)
    assert abs(statistics.mean(ours) - statistics.mean(theirs)) < max(noise, 0.01)
    assert statistics.mean(ours) > 3 / 8  # of eight classes, one in eight is right by chance


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_killed_training_goes_on_with_the_same_losses(planted, tmp_path, ranks):
    with millrace.LocalServer({"g": planted}) as server:
        check_that_it_goes_on(
            pathlib.Path(sage.__file__), ranks,
            lambda name: ["--address", server.address, "--job", name, "--epochs", 2], tmp_path)
