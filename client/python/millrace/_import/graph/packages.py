"""Datasets of other packages of graphs, through write_graph. They fit into memory, or are linked."""


def import_package(options):
    """Runs `millrace import graphbolt` or `ogb`. Returns what the user is told."""
    raise NotImplementedError
