"""Documents of tokens that are packed into rows: what is counted of them while they are served."""

import re
import struct

from harness import check, cluster, wait_for
from test_metrics import PROBES, Scrape
from test_streams import DATA

SIZE = 64
EXCLUDED = (0, 7, 8, 150, 299)
PIPELINE = f"""millrace: 1
dataset: data
source: tokens
pack: {{tensor: tokens, size: {SIZE}, method: concat, before: [1]}}
shuffle: {{seed: 7}}
batch: {{size: 8, remainder: keep}}
exclude: {{examples: {list(EXCLUDED)}}}
output: [tokens, pack.label]
"""


def lengths_of(folder):
    """The number of tokens of each document, as the .idx files have it."""
    lengths = []
    for path in sorted(folder.glob("*.idx")):
        data = path.read_bytes()
        count, = struct.unpack_from("<Q", data, 18)
        lengths += struct.unpack_from(f"<{count}i", data, 34)
    return lengths


class Rows:
    """What each row lacks and has left, by the rule of `concat`."""

    def __init__(self, lengths):
        self.lost, self.tokens = {}, {}
        at = 0
        for document, length in enumerate(lengths):
            end = at + length + 1 if length else at  # with what is put before it
            for row in range(at // SIZE, -(-end // SIZE) if end > at else 0):
                piece = min(end, (row + 1) * SIZE) - max(at, row * SIZE)
                lost = document in EXCLUDED
                self.lost[row] = self.lost.get(row, 0) + lost
                self.tokens[row] = self.tokens.get(row, 0) + (0 if lost else piece)
            at = end

    def of(self, lines):
        """(tokens, lost pieces) of delivered batches."""
        rows = [row for line in lines for row in line["examples"]]
        dropped = [row for line in lines for row, _ in line["dropped"]]
        check(all(self.tokens[row] for row in rows) and not any(self.tokens[row] for row in dropped),
              "other rows are dropped than those without a piece")
        return sum(self.tokens[row] for row in rows), sum(self.lost[row] for row in rows + dropped)


def packed(c):
    """Generates documents, and a pipeline that packs them without some."""
    c.dataset = c.folder / "pairs"
    c.run("generate", c.dataset, "--kind", "tokens", "--format", "pairs", "--documents", 300, "--files",
          3, "--mean", 100, "--vocab", 1000)
    c.pipeline.write_text(PIPELINE)
    lengths = lengths_of(c.dataset)
    check(len(lengths) == 300, f"{len(lengths)} documents")
    return lengths, Rows(lengths)


def test_tokens_and_lost_pieces_are_counted_as_loops_take_them():
    with cluster(DATA) as c:
        lengths, rows = packed(c)
        daemon = c.serve(*PROBES)
        consumer = c.consumer(1, job="packed")
        consumer.expect_success()
        lines = c.delivered(consumer.log)
        tokens, lost = rows.of(lines)
        check(tokens == sum(l + 1 for i, l in enumerate(lengths) if l and i not in EXCLUDED), f"{tokens}")
        dropped = [line for line in lines if line["dropped"]]
        check(lost > len(EXCLUDED) and dropped, f"{lost} lost pieces, {len(dropped)} batches lack rows")
        scrape = Scrape(daemon)
        job = 'job="packed"'
        check(scrape.value("millrace_tokens_delivered_total", job) == tokens, f"{tokens} tokens")
        counted = scrape.value("millrace_pieces_lost_total", job + ',reason="excluded"')
        check(counted == lost, f"{counted} lost pieces, expected {lost}")
        check(scrape.value("millrace_examples_dropped_total", 'reason="excluded"') ==
              sum(len(line["dropped"]) for line in dropped), "dropped rows")
        said = consumer.text()
        check(f"{tokens} tokens: " in said and f"pieces of documents lost as excluded: {lost}\n" in said,
              said)


def test_status_and_top_show_the_tokens_of_a_job_and_the_pieces_that_its_rows_lack():
    with cluster(DATA) as c:
        _, rows = packed(c)
        c.serve()
        for command in (("status",), ("top", "--once")):
            check("TOKENS/S" not in c.run(*command, "--address", c.address), f"{command} without a job")
        consumer = c.consumer(1, epochs=1000, extra=["--delay", "0.02", "--prefetch-bytes", "30000"])

        def counted():
            job = next(iter(c.status()["jobs"]), None)
            return job and job["pieces_lost"] and job["dropped"] and job["tokens_per_second"] > 0
        wait_for(counted, "nothing is counted", consumer.popen)
        status = c.status()
        counters = status["consumers"][0]["counters"]
        batches = int(counters["batches"])
        lines = wait_for(lambda: (log := c.delivered(consumer.log)) and len(log) >= batches and log,
                         "the log is behind", consumer.popen)[:batches]
        tokens, lost = rows.of(lines)
        check(int(counters["tokens"]) == tokens, f"{counters}, not {tokens} tokens")
        job = status["jobs"][0]
        check(int(job["tokens"]) == tokens, f"{job}, not {tokens} tokens")
        check([(one["name"], int(one["pieces"])) for one in job["pieces_lost"]] == [("excluded", lost)],
              f"{job}, not {lost} lost pieces")
        shown = c.run("status", "--address", c.address)
        check(re.search(r" TOKENS/S .* DROPPED +LOST PIECES ", shown), shown)
        check(re.search(r"\d+ excluded +\d+ excluded ", shown), shown)
        check("TOKENS/S" in c.run("top", "--once", "--address", c.address), "top")
        consumer.terminate()
        consumer.expect_success()
