"""Goes on where it was, on one rank or several, however it was stopped.

    python resume.py --pipeline train.yaml --checkpoints FOLDER --epochs 10

Each rank writes a checkpoint every few steps into FOLDER, which all hosts see. Before a training is
started again, `--agree RANKS` drops the checkpoints that not all ranks have: all of them then go on
from one place. The training here only adds up digests; put your step in its place. Ranks come from
Slurm, or from RANK and WORLD_SIZE.
"""

import argparse
import json
import os
import pathlib
import time

import millrace


def agree(folder, ranks):
    """Keeps the newest checkpoint that all ranks have, and drops the others."""
    steps = [{path.name for path in folder.glob(f"rank-{rank}/*.json")} for rank in range(ranks)]
    newest = max(set.intersection(*steps), default=None)
    for path in folder.glob("rank-*/*.json"):
        if path.name != newest:
            path.unlink()


def save(folder, step, **parts):
    """Writes the file completely or not at all."""
    path = folder / f"{step:012}.json"
    path.with_suffix(".new").write_text(json.dumps(parts))
    path.with_suffix(".new").replace(path)


def train(options):
    where = "slurm" if "SLURM_PROCID" in os.environ else None
    rank = os.environ.get("SLURM_PROCID", os.environ.get("RANK", "0"))
    folder = options.checkpoints / f"rank-{rank}"
    folder.mkdir(parents=True, exist_ok=True)
    saved = {"cursor": None, "sum": 0, "log_bytes": 0}
    for path in sorted(folder.glob("*.json")):
        saved = json.loads(path.read_text())
    total = saved["sum"]
    log = open(folder / "delivered.jsonl", "ab", buffering=0)
    log.truncate(saved["log_bytes"])  # steps after the checkpoint come again
    with millrace.connect(options.address, pipeline=options.pipeline, job=options.job, rank=where,
                          cursor=saved["cursor"], packed=True) as session:
        for epoch in session.epochs(options.epochs):
            for step, batch in epoch:
                total += int(batch.digest, 16)
                time.sleep(options.step_seconds)
                line = {"epoch": epoch.number, "step": step, "rank": batch.rank,
                        "ordinal": batch.ordinal, "hash": batch.digest,
                        "examples": batch.example_ids, "dropped": batch.dropped}
                log.write(json.dumps(line).encode() + b"\n")
                done = epoch.number * len(session) + step + 1
                if done % options.every == 0 or step + 1 == len(session):
                    save(folder, done, cursor=session.cursor, sum=total, log_bytes=log.tell())
    log.close()
    print(f"rank {rank}: sum of digests {total & 0xffffffff:08x}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", help="of the dispatcher",
                        default=os.environ.get("MILLRACE_ADDRESS", "127.0.0.1:7700"))
    parser.add_argument("--pipeline")
    parser.add_argument("--job")
    parser.add_argument("--checkpoints", type=pathlib.Path, required=True, metavar="FOLDER")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--every", type=int, default=5, help="steps between checkpoints")
    parser.add_argument("--step-seconds", type=float, default=0, help="how long a step takes")
    parser.add_argument("--agree", type=int, metavar="RANKS",
                        help="only drop the checkpoints that not all ranks have")
    options = parser.parse_args()
    if options.agree is not None:
        agree(options.checkpoints, options.agree)
    else:
        train(options)


if __name__ == "__main__":
    main()
