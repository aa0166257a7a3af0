// The facts of a source, known before an example is read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/batch/layout/drop_reasons.h"
#include "common/batch/layout/layout.h"

namespace millrace {

class Source;

/// A column of a source: one number per example.
struct SourceColumn {
  std::string name;
  /// Values are of float64, and Source::ReadColumns gives their bits. Others are integers.
  bool floats = false;
  /// The column has a scalar feature of examples, of int64 or, if `floats`, of float32. An example
  /// may lack it, and then fails each comparison with it.
  bool feature = false;
};

/// One of the sources that a source mixes.
struct SourceBranch {
  std::string name;
  std::string dataset;  // id
  std::shared_ptr<const Source> source;
  std::uint64_t first = 0;  // the number, in the mix, of its first example
};

/// Which tensors of rows are cut as documents are packed, if examples are rows (Source::packs).
struct PackTensors {
  std::string tensor;             // path of T, which `pack.tensor` names
  std::vector<std::string> with;  // paths of those of `pack.with`, which are cut as T
  std::uint32_t size = 0;         // the most elements of a row; of branches the largest
};

/// A kind fills in what has no default, and of the rest what differs.
struct SourceFacts {
  std::string name;  // as in `source:` of a pipeline
  /// The digest of the data. Equal digests mean equal examples, on any host.
  Digest128 digest;
  std::uint64_t examples = 0;  // their ids are 0 … examples - 1
  std::vector<SourceColumn> columns;
  /// Every tensor of a batch. Types are as narrow as the bounds of nodes, edges and labels allow.
  std::vector<TensorSpec> tensors;
  /// How the client completes edges: base labels, symmetrization, self-loops.
  ExpandSpec expand{1, Symmetrization::kDirected, false};

  /// The column whose values decide the labels under a hash split. Examples with the same value
  /// tend to be neighbours. Empty: all labels are 0, whatever the seed.
  std::string split_column = {};
  /// Reasons for which examples are dropped.
  DropReasonNames drop_reasons = {};
  /// An upper estimate of the packed bytes of one example; 0: unknown.
  std::uint64_t max_example_bytes = 0;
  /// Paths of the ragged tensors whose places other tensors count. These must not be cut.
  std::vector<std::string> counted_tensors = {};
  /// The digest that the dataset itself has, if the source gives more than the dataset: a plugin's
  /// examples depend on its arguments.
  std::optional<Digest128> data_digest = {};
  /// A user's code that decides what is built. It is part of a plan's fingerprint, not of the
  /// order's fingerprint. Empty: no such code.
  std::string code = {};
  /// Examples change from epoch to epoch. Then they have no measured columns, and are not kept in a
  /// cache.
  bool varies = false;
  /// Each chunk of an example is to be built for itself, because something draws random numbers in
  /// it (BatchWriter::SetChunks). Otherwise one build gives all its chunks.
  bool draws_by_chunk = false;
  /// Readers themselves drop the examples that the pipeline excludes, and are given all examples of
  /// a batch at once: in merged batches (ExpandSpec::merged) one depends on the others.
  bool drops_excluded = false;
  /// A reader has to be given a whole batch, because its rows depend on each other.
  bool whole_batches = false;
  /// The pools of a plugin's processes that readers ask, by PluginPool::number.
  std::set<std::uint64_t> pools = {};
  /// The name of the stage of builds in which readers work. It is never freed.
  std::string_view reading_stage = "closure";
  /// The sources that it mixes. Its examples are those of its branches, one branch after another.
  /// Empty: it is no mix.
  std::vector<SourceBranch> branches = {};
  /// Path of the ragged tensor whose elements count as tokens; empty: examples have no tokens.
  std::string token_tensor = {};
  /// The tensors that fill a plan's rows, also if only its branches have packs; nullopt: no packs.
  std::optional<PackTensors> packed = std::nullopt;

  /// Whether each row depends on its example and its pass alone, so that the examples of a batch
  /// may be given to several readers, each some of them.
  bool by_row() const { return !expand.merged && !drops_excluded && !whole_batches; }
};

}  // namespace millrace
