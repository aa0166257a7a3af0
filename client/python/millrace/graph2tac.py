"""graph2tac's DataServer, over Millrace: training runs unchanged but for the import.

    from millrace.graph2tac import DataServer, TRAIN, VALID

Every value, dtype and order is that of graph2tac 1.0.4, its own shuffle order included. Examples are
built in this process by Millrace's own code, many at once. An example that graph2tac cannot build
fails here too. There is one exception: an argument outside the global context is -1 here.
"""

import functools
import itertools
import json
import random

import numpy
import yaml

# This import comes first, as in graph2tac's training: pycapnp has to be loaded before TensorFlow.
from graph2tac.loader.data_server import HOLDOUT, TRAIN, VALID, DataToTFGNN
from graph2tac.loader.data_classes import (
    BIDIRECTIONAL,
    UNDIRECTED,
    DataConfig,
    DatasetConfig,
    GraphConstants,
    LoaderAction,
    LoaderActionSpec,
    LoaderDefinition,
    LoaderDefinitionSpec,
    LoaderGraph,
    LoaderProofstate,
    LoaderProofstateSpec,
    ProofstateContext,
    ProofstateMetadata,
)

from ._core import PlanReader

__all__ = ["HOLDOUT", "TRAIN", "VALID", "DataServer"]

_TOGETHER = 256  # examples built at once
_CONTEXTS = 64  # global contexts kept; neighbouring examples often share one, and each is long


def _pipeline(config, source, filters):
    """The pipeline that a DatasetConfig stands for."""
    data = config.data_config
    split = {"method": config.split_method}
    if config.split_method == "hash":
        split.update(proportions=list(config.split["proportions"]),
                     seed=config.split["random_seed"])
    elif config.split_method == "file_prefix":
        split.update(prefixes=[list(prefixes) for prefixes in config.split])
    return {
        "millrace": 1, "dataset": "graph2tac", "source": source, "split": split,
        "filter": {"exclude_none_arguments": filters and config.exclude_none_arguments,
                   "exclude_not_faithful": filters and config.exclude_not_faithful,
                   "required_tactic_occurrence": max(1, config.required_tactic_occurrence),
                   "restrict_to_spine": config.restrict_to_spine},
        "closure": {"max_subgraph_size": data.max_subgraph_size,
                    "order": "bfs" if data.bfs_option else "dfs",
                    "stop_at_definitions": data.stop_at_definitions},
        "edges": {"symmetrization": data.symmetrization or "none",
                  "add_self_edges": data.add_self_edges},
        "batch": {"size": 1, "remainder": "keep"},
        **({"fields": {"text": True}} if source == "proof_states" else {}),
    }


class _Length:
    """An iterable with a length that is given to it."""

    def __init__(self, iterable, length):
        self.iterable = iterable
        self.length = length

    def __iter__(self):
        return iter(self.iterable)

    def __next__(self):
        return next(self.iterable)

    def __len__(self):
        return self.length


class _Rows:
    """The tensors of a batch, a row at a time."""

    def __init__(self, batch):
        self._batch = batch
        self._arrays = {path: batch[path].numpy() for path in batch}
        self.row_of = {example: row for row, example in enumerate(batch.example_ids)}

    def all(self, path):
        return self._arrays[path]

    def cut(self, row, path):
        """The values of one graph in a tensor that is cut by splits."""
        splits = self._arrays[self._batch[path].splits]
        return self._arrays[path][splits[row]:splits[row + 1]]


class DataServer:
    """A replacement for graph2tac.loader.data_server.DataServer, with the same methods."""

    def __init__(self, data_dir, dataset_config):
        self.data_dir = data_dir
        self.dataset_config = dataset_config
        self.data_config = dataset_config.data_config
        if self.data_config.symmetrization not in (BIDIRECTIONAL, UNDIRECTED, None):
            raise ValueError(f"symmetrization {self.data_config.symmetrization!r}: expected "
                             f"{BIDIRECTIONAL!r}, {UNDIRECTED!r} or None")
        self._states = self._open("proof_states", False)
        self._kept = (self._open("proof_states", True)
                      if dataset_config.exclude_none_arguments or dataset_config.exclude_not_faithful
                      else self._states)
        self._clusters = self._open("definitions", False)
        self._spec = self._states.spec()
        self._vocabulary = self._states.vocabulary()
        rows = {table["name"]: table["rows"] for table in self._spec["tables"]}
        self._node_labels = rows["node_labels"]
        self._first_label = rows["node_classes"]
        self._name_dtype = f"U{max(map(len, self._definition_names()), default=0)}"
        self._context = functools.lru_cache(_CONTEXTS)(
            lambda number: numpy.array(self._states.context(number), numpy.uint32))
        self._exporter = None
        rng = random.Random(dataset_config.shuffle_random_seed)
        self.rng_proofstates = random.Random(rng.random())
        self.rng_definitions = random.Random(rng.random())

    def _open(self, source, filters):
        reader = PlanReader({"pipeline": json.dumps(_pipeline(self.dataset_config, source, filters)),
                             "datasets": {"": str(self.data_dir)}})
        reader.attach()
        return reader

    def _definition_names(self):
        if not self.dataset_config.restrict_to_spine:
            return self._vocabulary["node_label_names"][self._first_label:]
        # Definitions off the spine have no label, but the clusters have their names too.
        clusters = map(self._clusters.describe, range(self._clusters.examples()))
        return itertools.chain.from_iterable(cluster["members"] for cluster in clusters)

    # --- the dataset ---

    def graph_constants(self):
        in_spine = [True] * self._first_label
        in_spine += [False] * (self._node_labels - self._first_label)
        for label in self._states.spine_labels():
            in_spine[label] = True
        tactics = self._vocabulary["tactics"]
        return GraphConstants(
            data_config=self.data_config,
            tactic_num=len(tactics),
            edge_label_num=self._spec["edge_labels"],
            base_node_label_num=self._first_label,
            node_label_num=self._node_labels,
            cluster_subgraphs_num=self._clusters.examples(),
            tactic_index_to_numargs=[tactic["arguments"] for tactic in tactics],
            tactic_index_to_string=[tactic["base_text"] for tactic in tactics],
            tactic_index_to_hash=[tactic["ident"] for tactic in tactics],
            label_to_names=self._vocabulary["node_label_names"],
            label_to_ident=self._vocabulary["node_label_idents"],
            label_in_spine=in_spine,
        )

    def datapoint_indices(self, *labels):
        return _with_labels(self._states, labels)

    def def_cluster_indices(self, *labels):
        return _with_labels(self._clusters, labels)

    # --- proof states ---

    def get_datapoints(self, label, shuffled=False):
        ids = self.datapoint_indices(label)
        if shuffled:
            self.rng_proofstates.shuffle(ids)
        kept = filter(self._kept.selects, ids)
        return _Length(self._each(self._states, kept, self._datapoint), len(ids))

    def data_train(self, shuffled=False):
        return self.get_datapoints(TRAIN, shuffled=shuffled)

    def data_valid(self):
        return self.get_datapoints(VALID)

    def datapoint_graph(self, i):
        if not self._kept.selects(i):
            return None
        return next(self._each(self._states, [i], self._datapoint))

    def datapoint_text(self, i):
        return next(self._each(self._states, [i], self._text))

    def _text(self, rows, row, i):
        del i
        return tuple(bytes(rows.cut(row, path)).decode() for path in ("state_text", "tactic_text"))

    def _datapoint(self, rows, row, i):
        # Node numbers count across the batch. Subtracting `first` gives the example's own.
        first = rows.all("node_splits")[row]
        state = LoaderProofstate(
            graph=self._graph(rows, row, first),
            root=int(rows.all("root")[row] - first),
            context=ProofstateContext(
                local_context=(rows.cut(row, "local_context") - first).astype(numpy.uint32),
                global_context=self._context(int(rows.all("global_context")[row])).copy()),
            metadata=ProofstateMetadata(
                name=self._vocabulary["node_label_names"][rows.all("definition")[row]].encode(),
                step=int(rows.all("proof_step")[row]),
                is_faithful=bool(rows.all("faithful")[row])))
        action = LoaderAction(
            tactic_id=int(rows.all("tactic")[row]),
            local_args=rows.cut(row, "local_args").astype(numpy.int64),
            global_args=rows.cut(row, "global_args").astype(numpy.int64))
        return state, action, i

    # --- definitions ---

    def def_cluster_subgraph(self, i):
        return next(self._each(self._clusters, [i], self._definition))

    def def_cluster_subgraphs(self, label=TRAIN, shuffled=False):
        ids = self.def_cluster_indices(label)
        if shuffled:
            self.rng_definitions.shuffle(ids)
        return _Length(self._each(self._clusters, ids, self._definition), len(ids))

    def _definition(self, rows, row, i):
        del i
        first = rows.all("node_splits")[row]
        count = int(rows.all("num_definitions")[row])
        labels = rows.all("node_label")[first:first + count]
        names = [self._vocabulary["node_label_names"][label] for label in labels]
        return LoaderDefinition(graph=self._graph(rows, row, first), num_definitions=count,
                                definition_names=numpy.array(names, dtype=self._name_dtype))

    # --- both ---

    def _each(self, reader, ids, make):
        """Gives make(rows, row, id) for each id, in order. Many examples are built at once."""
        ids = iter(ids)
        together = 1  # a caller that wants few gets them soon
        while chunk := list(itertools.islice(ids, together)):
            rows = _Rows(reader.of_examples(chunk))
            for i in chunk:
                if i not in rows.row_of:
                    raise ValueError(f"example {i}: graph2tac cannot build it either: its local "
                                     "context is cut off, or it reaches a definition off the spine")
                yield make(rows, rows.row_of[i], i)
            together = min(2 * together, _TOGETHER)

    def _graph(self, rows, row, first):
        labels = rows.cut(row, "edge_label").astype(numpy.uint32)
        edges = numpy.empty((len(labels), 2), numpy.uint32)
        edges[:, 0] = rows.cut(row, "edge_source") - first
        edges[:, 1] = rows.cut(row, "edge_target") - first
        groups = self._spec["edge_labels"]
        if len(labels):
            counts = numpy.bincount(labels, minlength=groups)
            offsets = numpy.cumsum(counts)[:-1].astype(numpy.uint32)
        else:
            offsets = numpy.zeros(groups, numpy.uint32)  # one more than above, as in graph2tac
        return LoaderGraph(nodes=rows.cut(row, "node_label").astype(numpy.uint32), edges=edges,
                           edge_labels=labels, edge_offsets=offsets)

    # --- configuration ---

    def get_config(self):
        config = dict(self.dataset_config.__dict__)
        config["data_config"] = config["data_config"].__dict__
        return config

    @classmethod
    def from_yaml_config(cls, data_dir, yaml_filepath):
        with yaml_filepath.open() as file:
            config = yaml.safe_load(file)
        config["data_config"] = DataConfig(**config["data_config"])
        return cls(data_dir=data_dir, dataset_config=DatasetConfig(**config))

    # --- TF-GNN ---

    def _get_data_to_tfgnn(self):
        if self._exporter is None:
            self._exporter = DataToTFGNN()
        return self._exporter

    def proofstates_tfgnn(self, label, shuffle):
        import tensorflow

        dataset = tensorflow.data.Dataset.from_generator(
            lambda: self.get_datapoints(label, shuffle),
            output_signature=(LoaderProofstateSpec, LoaderActionSpec,
                              tensorflow.TensorSpec([], tensorflow.int64)))
        return dataset.map(self._get_data_to_tfgnn().proofstate_to_graph_tensor)

    def definitions_tfgnn(self, label, shuffle):
        import tensorflow

        dataset = tensorflow.data.Dataset.from_generator(
            lambda: self.def_cluster_subgraphs(label, shuffle),
            output_signature=LoaderDefinitionSpec)
        return dataset.map(self._get_data_to_tfgnn().definition_to_graph_tensor)


def _with_labels(reader, labels):
    every = range(reader.examples())
    return [i for i in every if reader.split_label(i) in labels] if labels else list(every)
