"""The checker finds the errors in a log."""

import copy
import json
import unittest

import checker

WORLD = 2


def log(epochs=2, steps=5):
    """The lines of a correct log: 2 ranks, 3 examples a batch, one of them dropped."""
    lines = []
    for epoch in range(epochs):
        for step in range(steps):
            for rank in range(WORLD):
                ordinal = step * WORLD + rank
                ids = [3 * ordinal, 3 * ordinal + 1]
                lines.append({"epoch": epoch, "step": step, "rank": rank, "ordinal": ordinal,
                              "hash": f"{epoch}-{ordinal}", "examples": ids,
                              "dropped": [[3 * ordinal + 2, "too_large"]]})
    return lines


class Checker(unittest.TestCase):
    def setUp(self):
        self.expected = log()
        self.delivered = copy.deepcopy(self.expected)

    def wrong(self, words):
        with self.assertRaisesRegex(checker.Wrong, words):
            checker.check_order(self.delivered, "log")
            checker.check(self.delivered, self.expected, WORLD, 30)

    def test_a_log_as_it_should_be_is_accepted(self):
        checker.check_order(self.delivered, "log")
        self.assertEqual(checker.check(self.delivered, self.expected, WORLD, 30), (20, 60))

    def test_a_missing_batch_is_found(self):
        del self.delivered[7]
        self.wrong("1 of 20 batches were not delivered; the first is epoch 0, step 3, rank 1")

    def test_a_missing_end_is_found(self):
        del self.delivered[-2:]
        self.wrong("2 of 20 batches were not delivered")

    def test_a_batch_that_came_twice_in_a_row_is_found(self):
        self.delivered.insert(5, copy.deepcopy(self.delivered[5]))
        self.wrong("rank 1: epoch 0, step 2 came twice in a row")

    def test_a_batch_that_came_twice_in_two_logs_is_found(self):
        self.delivered.append(copy.deepcopy(self.delivered[5]))
        with self.assertRaisesRegex(checker.Wrong, "epoch 0, step 2, rank 1: was delivered twice"):
            checker.check(self.delivered, self.expected, WORLD, 30)

    def test_two_batches_that_changed_places_are_found(self):
        d = self.delivered
        d[4], d[6] = d[6], d[4]
        self.wrong("rank 0: epoch 0, step 2 came after")

    def test_two_batches_under_each_other_s_names_are_found(self):
        d = self.delivered
        d[4]["hash"], d[6]["hash"] = d[6]["hash"], d[4]["hash"]
        self.wrong("step 2, rank 0: hash: delivered 0-6, expected 0-4")

    def test_another_hash_is_found(self):
        self.delivered[3]["hash"] = "0"
        self.wrong("epoch 0, step 1, rank 1: hash")

    def test_another_example_is_found(self):
        self.delivered[3]["examples"][0] += 100
        self.wrong("epoch 0, step 1, rank 1: examples")

    def test_an_example_dropped_without_need_is_found(self):
        line = self.delivered[3]
        line["dropped"].append([line["examples"].pop(), "too_large"])
        self.wrong("epoch 0, step 1, rank 1: examples")

    def test_another_reason_of_dropping_is_found(self):
        self.delivered[3]["dropped"][0][1] = "excluded"
        self.wrong("epoch 0, step 1, rank 1: dropped")

    def test_a_batch_that_nobody_asked_for_is_found(self):
        self.delivered.append({**self.delivered[-1], "step": 5})
        self.wrong("epoch 1, step 5, rank 1: was delivered, and nobody asked for it")

    def test_a_batch_of_another_rank_is_found(self):
        self.delivered[0]["rank"] = 1
        self.wrong("came twice in a row")

    def test_a_reference_with_an_example_twice_is_found(self):
        self.expected[3]["examples"][0] = 0
        self.delivered[3]["examples"][0] = 0
        self.wrong("example 0 came twice in epoch 0")

    def test_a_reference_that_is_not_a_whole_epoch_is_found(self):
        del self.expected[-1], self.delivered[-1]
        self.wrong("the reference of epoch 1 has 27 of 30 examples")

    def test_a_torn_line_is_for_killed_writers_only(self):
        text = "".join(json.dumps(line) + "\n" for line in self.expected)
        self.assertEqual(checker.parse(text, "log"), self.expected)
        with self.assertRaisesRegex(checker.Wrong, "log: the last line is not complete"):
            checker.parse(text[:-5], "log")
        self.assertEqual(checker.parse(text[:-5], "log", torn=True), self.expected[:-1])

    def test_a_line_that_is_no_line_of_a_log_is_found(self):
        for text in ("no json\n", "[]\n", '{"epoch":0}\n'):
            with self.assertRaises(checker.Wrong):
                checker.parse(text, "log", torn=True)

    def test_a_resume_counts_what_came_before_its_checkpoint(self):
        first = checker.before(self.delivered, 0, 3)
        second = [line for line in self.delivered if (line["epoch"], line["step"]) >= (0, 3)]
        self.assertEqual(len(first), 6)
        checker.check(first + second, self.expected, WORLD, 30)
        with self.assertRaisesRegex(checker.Wrong, "twice"):
            checker.check(checker.before(self.delivered, 0, 4) + second, self.expected, WORLD, 30)


if __name__ == "__main__":
    unittest.main()
