"""Documents that are packed into rows, as a session sees them."""

from conftest import pipeline

import millrace

SIZE = 40
TEXT = {"fields": {"text": True}}
PACKED = {**TEXT, "pack": {"tensor": "state_text", "size": SIZE, "method": "concat"},
          "output": ["state_text"]}


def test_a_session_counts_tokens_and_the_pieces_that_its_rows_lack(connect, dataset):
    whole = millrace.reference(pipeline(**TEXT, output=["state_text"]), dataset)
    lengths = {}
    for _, batch in whole.next_epoch():
        splits = batch["state_text_splits"].numpy().tolist()
        lengths.update((example, splits[row + 1] - splits[row])
                       for row, example in enumerate(batch.example_ids))
    assert whole.stats()["tokens"] == 0 and not any(whole.stats()["pieces_lost"].values())
    longest = max(lengths, key=lengths.get)
    at = sum(length for example, length in lengths.items() if example < longest)
    end = at + lengths[longest]
    pieces = -(-end // SIZE) - at // SIZE
    assert pieces > 2
    of = pipeline(**PACKED, exclude={"examples": [longest]})
    for session in (connect(of), connect(of, micro=2, job="micro"), millrace.reference(of, dataset)):
        for _ in session.next_epoch():
            pass
        stats = session.stats()
        assert stats["tokens"] == sum(lengths.values()) - lengths[longest]
        assert stats["pieces_lost"]["excluded"] == sum(stats["pieces_lost"].values()) == pieces
        # Its first and last piece share their rows.
        assert stats["dropped"]["excluded"] >= pieces - 2
