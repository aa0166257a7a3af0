"""`millrace import` of graphs: edges into a graph dataset (docs/guides/import.md,
docs/guides/graphs.md).

The graph may be larger than memory. Edges are read once, in chunks, and written as runs: as many as
memory holds, sorted by row. Then one range of rows after another is read from all runs, sorted and
appended to the arrays of the dataset. The result is what write_graph gives for the same edges.

    options     the arguments
    command     an import from begin to end
    folder      the folder that is written, and the journal by which an import goes on
    chunks      edges as they come from a source, and how they are checked
    parquet     edges of Parquet files
    texts       edges of text files
    tokens      the numbers and names in a piece of text
    renumber    numbers for nodes that have names
    runs        writes and reads runs
    ranges      from runs to the dataset's arrays, by ranges of rows
    arrays      the arrays of edges while they grow
    extras      the other arrays: features of nodes, and lists of roots
    packages    datasets of GraphBolt and OGB, through write_graph
"""
