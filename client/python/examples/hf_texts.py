"""Streams a Hugging Face dataset that save_to_disk wrote: python hf_texts.py FOLDER"""
import sys

import datasets

__all__ = ["Texts"]


class Texts:
    def __init__(self, folder):
        self.rows = datasets.load_from_disk(folder).select_columns(["text", "label"])

    def __len__(self):
        return len(self.rows)

    def spec(self):
        return {"text": "str", "label": "int64"}

    def __getitem__(self, i):
        return self.rows[i]


if __name__ == "__main__":
    import millrace
    pipeline = {"millrace": 1, "dataset": "texts", "source": {"python": "hf_texts:Texts"},
                "shuffle": {"seed": 0}, "filter": {"where": "text.length > 0"}, "batch": {"size": 8}}
    folders = {"texts": f"python:{sys.argv[1]}"}
    for step, batch in millrace.local(folders, pipeline, plugins={"hf_texts": "."}).next_epoch():
        splits = batch["text_splits"].numpy()
        texts = [bytes(batch["text"].numpy()[a:b]).decode() for a, b in zip(splits, splits[1:])]
        print(step, batch["label"].numpy(), texts[0])
