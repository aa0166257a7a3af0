import returnn.frontend as rf
import torch
from returnn.datasets.cached2 import CachedDataset2, DatasetSeq

import millrace

session = millrace.local({}, {"millrace": 1, "source": {"python": "torch_padded:Utterances"},
                              "batch": {"size": 16}}, plugins={"torch_padded": "."})


class Millrace(CachedDataset2):
    def initialize(self):
        self.num_outputs = {"data": (40, 2), "label": (10, 0)}
        super().initialize()

    def init_seq_order(self, epoch=None, seq_list=None, seq_order=None):
        session.seek((epoch or 1) - 1)
        self.rows = (b.row(i) for _, b in session.next_epoch() for i in range(b.num_graphs))
        return super().init_seq_order(epoch, seq_list, seq_order)

    def _collect_single_seq(self, seq_idx):
        return (row := next(self.rows, None)) and DatasetSeq(
            seq_idx, {"data": row["features"], "label": row["label"]}, seq_tag=str(row["example_id"]))


def train_step(*, model, extern_data, **_):
    mean = rf.reduce_mean(extern_data["data"], axis=extern_data["data"].get_time_dim_tag())
    losses = torch.nn.functional.cross_entropy(model(mean.raw_tensor), extern_data["label"].raw_tensor)
    rf.get_run_ctx().mark_as_loss(losses, "cross_entropy")


backend, task, num_epochs, batch_size, max_seqs, learning_rate = "torch", "train", 2, 4000, 100, 0.1
train, optimizer, torch_dataloader_opts = {"class": Millrace}, {"class": "sgd"}, {"num_workers": 0}
extern_data = {"data": {"dim": 40}, "label": {"dim": 10, "sparse": True, "shape": (), "dtype": "int64"}}
get_model = lambda **_: torch.nn.Linear(40, 10)
