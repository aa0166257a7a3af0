"""`millrace import tokens`: texts into a folder of tokens (docs/formats/tokens.md).

Each file of texts becomes a pair X.bin and X.idx, as Megatron-LM has them. A file is read once, a
batch of texts after another, so memory has one batch and the lengths of one file's documents.

    options     the arguments
    command     an import from begin to end
    folder      the folder that is written, and the journal by which an import goes on
    texts       batches of texts from files of JSON lines or Parquet
    tokenizer   calls the user's function, and checks what it gives
    pair        writes a pair
"""
