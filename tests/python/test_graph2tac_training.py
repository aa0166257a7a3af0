"""graph2tac's training program has the same losses over its own loader and over ours.

This takes minutes, most of which TensorFlow spends on tracing graph2tac's model.
"""

import shutil
import sys

import pytest
import yaml

pytest.importorskip("graph2tac")

from graph2tac.loader import data_server as theirs  # noqa: E402
from graph2tac.tfgnn import train as program  # noqa: E402
import tensorflow as tf  # noqa: E402

from millrace import graph2tac as ours  # noqa: E402

DENSE = {"units": 8, "activation": "relu"}
TRAINING = {
    "dataset": {
        "data_config": {"max_subgraph_size": 32, "bfs_option": True, "stop_at_definitions": True,
                        "symmetrization": "bidirectional", "add_self_edges": True},
        "split_method": "hash", "split": {"proportions": [2, 1, 7], "random_seed": 1},
        "restrict_to_spine": False, "exclude_none_arguments": True, "exclude_not_faithful": False,
        "required_tactic_occurrence": 1, "shuffle_random_seed": 3},
    "prediction": {
        "prediction_task_type": "global_argument_prediction", "hidden_size": 8,
        "unit_norm_embs": False, "gnn_type": "simple_convolution_gnn",
        "gnn_config": {"hops": 1, "dense_activation": "relu", "residual_activation": None,
                       "dropout_rate": 0.1, "layer_norm": True, "reduce_type": "mean",
                       "final_reduce_type": "mean"},
        "tactic_embedding_size": 8, "tactic_head_type": "dense_tactic",
        "tactic_head_config": {"hidden_layers": [DENSE]}, "arguments_head_type": "simple_rnn",
        "arguments_head_config": {"activation": "relu", "recurrent_depth": 1},
        "dynamic_global_context": True, "global_cosine_similarity": True,
        "sum_loss_over_tactic": True},
    "definition": {"definition_head_type": "dense_definition",
                   "definition_head_config": {"hidden_layers": [DENSE]}},
    "trainer": {"serialized_optimizer": {"class_name": "Adam", "config": {"learning_rate": 0.003}},
                "definition_loss_coefficient": 1.0},
    "run": {"tf_seed": 5, "total_epochs": 2, "batch_size": 32},
}


def train(server_class, folder, configs):
    """Runs graph2tac's training program, unchanged but for the loader that it uses."""
    tf.keras.backend.clear_session()
    tf.config.experimental.enable_op_determinism()
    losses = []

    class Every(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            losses.append(logs["loss"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "DataServer", server_class)
        inner = program.Trainer._callbacks
        patch.setattr(program.Trainer, "_callbacks", lambda self: [*inner(self), Every()])
        patch.setattr(sys, "argv", ["train", "--data-dir", str(folder)] + [
            word for name in ("dataset", "run", "trainer")
            for word in (f"--{name}-config", str(configs / name))] + [
            word for name in ("prediction", "definition")
            for word in (f"--{name}-task-config", str(configs / name))])
        history = program.main_with_return_value()
    return losses, history.history


def test_graph2tacs_training_has_the_same_losses(real_dataset, tmp_path):
    """Trains graph2tac's GNN on mini_stdlib. All losses are equal bit for bit."""
    folder = tmp_path / "mini_stdlib"
    shutil.copytree(real_dataset, folder, copy_function=shutil.copyfile)
    for name, content in TRAINING.items():
        (tmp_path / name).write_text(yaml.safe_dump(content))
    expected, history = train(theirs.DataServer, folder, tmp_path)
    losses, own_history = train(ours.DataServer, folder, tmp_path)
    assert len(losses) >= 20 and len(set(losses)) >= 20  # the model learns
    assert losses[-1] < losses[0]
    assert losses == expected
    assert own_history == history
