"""`millrace import`: brings data of other frameworks into a dataset of records, graphs into a
graph dataset (docs/guides/import.md), and texts into a folder of tokens (docs/formats/tokens.md).

    main        the command: arguments, errors, exit codes
    journal     the journal by which an import goes on
    folder      the folder that is written: shards, and what the journal says of them
    feed        from a source of dicts, or from TFRecord files, into shards
    values      the values of a dict as features of a tf.train.Example
    shapes      what all examples have in common, as the line of a pipeline that reads them
    sources     Hugging Face datasets, TensorFlow Datasets, and Python functions
    parquet_file  Parquet files, with our errors
    progress    a bar on a terminal, lines elsewhere
    graph       edges and other graphs
    tokens      texts
"""
