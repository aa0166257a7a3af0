"""The rivals: the program and environment of each, our figure that it is compared with, and what it
does more or less than ours."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Ours:
    """The run of ours that a rival is interleaved with, and its figure that is compared."""
    name: str
    program: tuple
    figure: str
    plot: str = ""  # name of the plot that shows it and its rivals; empty: there is none


CLOSURE = Ours("closures and packing",
               ("bench_closure", "{data}", "--json", "--rounds", "{rounds}", "--size", "512"),
               "closures and packing, batches of 512", "closure-rivals")
END_TO_END = Ours("end to end in shared memory",
                  ("bench_end_to_end", "{data}", "--json", "--seconds", "{seconds}", "--batch",
                   "512"),
                  "end to end in shared memory, batches of 512, 1 worker thread, 1 consumer",
                  "end-to-end-rivals")
WIRE = Ours("payload over gRPC",
            ("bench_wire", "--json", "--seconds", "{seconds}", "--kib", "1024"),
            "payload over gRPC, 1 MiB", "wire-rivals")


def sampling(name, figure):
    return Ours(name, ("bench_sampling", "{graph}", "--in-memory", "--json", "--seconds",
                       "{seconds}"), figure)


SAMPLING = sampling("neighbourhoods", "sampled edges")
SAMPLING_FEATURES = sampling("neighbourhoods with features", "sampled edges with features")
SAMPLING_END_TO_END = sampling("neighbourhoods end to end", "sampled edges end to end")


@dataclasses.dataclass(frozen=True)
class Rival:
    name: str
    title: str
    environment: str
    program: tuple  # script of this folder, and its arguments
    ours: Ours
    note: str
    step: str = "base"   # the step of the environment that it needs
    csr: bool = False    # reads the dataset as arrays
    data: str = "data"   # the dataset that it gets: data, or graph


SAMPLERS_LACK = ("less: no size limit, no grouping of edges, no batches, no contexts, arguments or "
                 "tactics")
LOADERS_LACK = ("less: no checksum on the way, no reversed and self edges, no contexts, arguments or "
                "tactics")

def samplers():
    """The same three measurements of every library that samples neighbourhoods."""
    libraries = (
        ("graphbolt", "GraphBolt", "base", ("graphbolt_sampler.py",),
         "more: samples edges of the roots again in the second hop"),
        ("pyg-lib", "PyG over pyg-lib", "pyg-lib", ("pyg_neighbors.py", "--library", "pyg-lib"),
         "the same"),
        ("torch-sparse", "PyG over torch-sparse", "torch-sparse",
         ("pyg_neighbors.py", "--library", "torch-sparse"), "the same"))
    modes = (
        ("sample", "sampling", SAMPLING, ""),
        ("features", "sampling and features", SAMPLING_FEATURES, ""),
        ("loader", "its loader, 1 worker process", SAMPLING_END_TO_END,
         "; less: no checksum on the way, no network"))
    for mode, what, ours, less in modes:
        for name, library, step, program, note in libraries:
            yield Rival(f"{name}-{mode}", f"{library}: {what}", "graphs",
                        (*program, "--mode", mode), ours, note + less, step, data="graph")


RIVALS = (
    Rival("reference", "graph2tac DataServer, alone", "reference", ("reference.py",), CLOSURE,
          "more: reversed and self edges, whole global contexts; less: no batches"),
    Rival("reference-tfdata", "graph2tac DataServer, through its tf.data export", "reference",
          ("reference.py", "--export", "tfdata"), CLOSURE,
          "more: reversed and self edges, whole global contexts, GraphTensors; less: no batches"),
    Rival("igraph-nodes", "igraph neighborhood, nodes alone, 512 roots a call", "loaders",
          ("igraph_neighborhood.py", "--kind", "nodes"), CLOSURE,
          "less: no edges at all; " + SAMPLERS_LACK.removeprefix("less: "), csr=True),
    Rival("igraph-induced", "igraph neighborhood + induced subgraph", "loaders",
          ("igraph_neighborhood.py", "--kind", "induced"), CLOSURE, SAMPLERS_LACK, csr=True),
    Rival("igraph-gathered", "igraph neighborhood + edges by vectorised numpy", "loaders",
          ("igraph_neighborhood.py", "--kind", "gathered"), CLOSURE,
          "less: no size limit, no grouping of edges, no contexts, arguments or tactics", csr=True),
    Rival("pyg-khop", "PyG k_hop_subgraph", "loaders", ("pyg_samplers.py", "--kind", "khop"),
          CLOSURE, SAMPLERS_LACK, csr=True),
    Rival("torch-sparse", "torch-sparse neighbor_sample, called directly", "loaders",
          ("pyg_samplers.py", "--kind", "neighbor"), CLOSURE, SAMPLERS_LACK, "torch-sparse", True),
    Rival("pyg-loader", "PyG NeighborLoader over torch-sparse", "loaders",
          ("pyg_samplers.py", "--kind", "loader"), CLOSURE, SAMPLERS_LACK, "torch-sparse", True),
    Rival("pyg-lib", "PyG NeighborLoader over pyg-lib", "loaders",
          ("pyg_samplers.py", "--kind", "loader"), CLOSURE, SAMPLERS_LACK, "pyg-lib", True),
    Rival("torch-1", "PyTorch DataLoader, 1 worker", "loaders",
          ("torch_loader.py", "--workers", "1"), END_TO_END, LOADERS_LACK, csr=True),
    Rival("torch-2", "PyTorch DataLoader, 2 workers", "loaders",
          ("torch_loader.py", "--workers", "2"), END_TO_END,
          LOADERS_LACK + "; two worker processes against our one thread", csr=True),
    Rival("grain-1", "Grain, 1 worker", "loaders", ("grain_loader.py", "--workers", "1"),
          END_TO_END, LOADERS_LACK, csr=True),
    Rival("grain-2", "Grain, 2 workers", "loaders", ("grain_loader.py", "--workers", "2"),
          END_TO_END, LOADERS_LACK + "; two worker processes against our one thread", csr=True),
    Rival("flight", "Arrow Flight DoGet, 1 MiB", "loaders", ("arrow_flight.py",), WIRE,
          "less: the sender hashes nothing, no aligned slot"),
    Rival("tfdata-service", "tf.data service, elements of 1 MiB, uncompressed", "reference",
          ("tfdata_service.py",), WIRE,
          "more: the worker reads a file in page cache; less: nothing checks what arrives"),
    *samplers(),
)
