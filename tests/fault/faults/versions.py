"""Processes of two versions of the protocol."""

import os
import pathlib

import checker
from cluster import binaries, check, wait_for
from fault import NotRun, fault


def older():
    """The programs of the version before this one."""
    folder = os.environ.get("MILLRACE_OLDER")
    if not folder:
        raise NotRun("give --older FOLDER, which has bin/millraced and bin/millrace of a build of "
                     "the last commit that spoke the protocol before this one")
    return binaries(daemon=pathlib.Path(folder) / "bin" / "millraced",
                    cli=pathlib.Path(folder) / "bin" / "millrace")


def trainers_begin(c, version):
    """A trainer of each version begins a job and ends it."""
    newer = c.consume(1, job=f"newer-{version}")
    with older():
        old = c.consume(1, job=f"older-{version}", network=True)
    for trainer in (newer, old):
        trainer.expect_success()
        c.expect([trainer], 1)


@fault("32", "older worker with newer dispatcher", "E B, or refused", conditions=(
    "protocols 1 and 2 (--older). All processes of a running job are of the older version; then "
    "SIGTERM or SIGKILL renews them: the dispatcher, one worker, the other, and the trainer, from "
    "its cursor; trainers of both versions begin in between. Then a newer trainer and a newer "
    "worker meet an older dispatcher: they are refused, with both versions named"))
def versions_differ(run):
    end = run.random.choice(["kill", "terminate"])
    with run.cluster() as c:
        with older():
            dispatcher = c.dispatcher()
            workers = [c.worker(), c.worker()]
            world_size = run.random.choice([1, 2, 3])
            consumer = c.consume(world_size, epochs=10000, network=run.random.random() < 0.5)
        consumer.wait_for_batches(run.random.randrange(50, 150))

        def renew(process):
            getattr(process, end)()
            process.wait()

        renew(dispatcher)
        c.again(dispatcher)
        wait_for(lambda: [w["state"] for w in c.status()["workers"]].count("ready") == 2,
                 "the older workers are not ready with the newer dispatcher")
        consumer.wait_for_more(100)
        trainers_begin(c, "dispatcher")
        for turn, worker in enumerate(workers):
            c.worker()
            renew(worker)
            consumer.wait_for_more(100)
            trainers_begin(c, f"worker-{turn}")
        c.stop(consumer)
        c.expect_prefix(consumer, world_size)
        cursor = consumer.cursor()
        epoch, position = (int(number) for number in cursor.split(":")[1:])
        resumed = c.consume(world_size, cursor=cursor)
        resumed.expect_success()
        checker.check(resumed.lines(), c.reference(epoch, world_size, position), world_size)

    with run.cluster() as c:
        with older():
            c.dispatcher()
        newer = c.consume(1)
        _, said = newer.expect_error("protocol")
        check("1" in said and "2" in said, f"it names not both versions: {said}")
        worker = c.worker()
        wait_for(lambda: "protocol 2 is unknown: expected 1" in worker.text(),
                 "the newer worker does not say why the older dispatcher refuses it")
        check(not c.status()["workers"], "an older dispatcher keeps a worker that it refused")
