// Source: what a plan draws examples from. It numbers the examples, tells their columns (for
// filters, splits and tools) without building them, and builds them into batches. The Coq dataset
// gives two sources (coq_source); others implement the same interface and enter the source table.
//
// A Source is immutable and thread-safe; an ExampleBuilder belongs to one thread. A builder must
// not outlive its source.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/batch/layout/layout.h"
#include "millrace/v1/common.pb.h"
#include "server/dataset/split.h"

namespace google::protobuf::io {
class CodedOutputStream;
}

namespace millrace {

class BatchWriter;  // common/batch/batch_writer.h

/// Builds examples; holds everything that is reused between them. Not thread-safe.
class ExampleBuilder {
 public:
  virtual ~ExampleBuilder() = default;

  /// Appends the examples, in this order, each as the next graph of `writer` (which has the
  /// source's tensors) or, where it is dropped, with AddDropped. DataLoss naming the file where
  /// stored data turn out to be damaged: the writer is then unusable until its next Begin.
  /// REQUIRES: ids are below source.examples().
  virtual Status Append(std::span<const ExampleId> ids, BatchWriter& writer) = 0;
};

/// What a person wants to know of an example without building it.
struct ExampleDescription {
  std::string file;
  std::string definition;                // name of its (first) definition or object
  std::optional<std::uint32_t> step;     // of a proof
  std::optional<std::uint32_t> outcome;  // of the step
  std::optional<bool> faithful;
  std::vector<std::string> members;  // names of all definitions of a cluster
};

/// What plans ask of many examples.
struct ExampleColumns {
  std::optional<std::uint64_t> split_identity;
  std::uint32_t file = 0;
  bool faithful = true;
  bool none_argument = false;
};

/// Which columns are wanted; the others may be left as they are.
struct WantedColumns {
  bool split_identity = false;
  bool file = false;
  bool faithful = false;
  bool none_argument = false;

  bool any() const { return split_identity || file || faithful || none_argument; }
};

class Source {
 public:
  virtual ~Source() = default;

  /// Of the data: equal digests mean equal examples, whatever the host.
  virtual Digest128 digest() const = 0;
  /// As in `source:` of a pipeline.
  virtual std::string_view name() const = 0;
  /// Ids are 0 … examples() - 1.
  virtual std::uint64_t examples() const = 0;

  // --- Columns -------------------------------------------------------------------------------
  /// What a hash split goes by; empty: label 0 whatever the seed. Examples of one key tend to be
  /// neighbours.
  virtual std::optional<std::uint64_t> SplitIdentity(ExampleId id) const = 0;
  /// Number of the file that the example comes from.
  virtual std::uint32_t File(ExampleId id) const = 0;
  /// Label of every file under `file_prefix`. InvalidArgument where the prefixes do not fit.
  virtual Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const = 0;
  /// For exclude_not_faithful and exclude_none_arguments.
  virtual bool Faithful(ExampleId /*id*/) const { return true; }
  virtual bool HasNoneArgument(ExampleId /*id*/) const { return false; }
  /// Columns of examples that follow one another, from `first` on: what the functions above say of
  /// each, in less time. REQUIRES: the source has the examples.
  virtual void ReadColumns(ExampleId first, const WantedColumns& wanted,
                           std::span<ExampleColumns> columns) const;
  virtual ExampleDescription Describe(ExampleId id) const = 0;

  // --- Batches -------------------------------------------------------------------------------
  /// Every tensor of a batch, types as narrow as the bounds of nodes, edges and labels allow.
  virtual const std::vector<TensorSpec>& tensors() const = 0;
  /// How edges are completed: base labels, symmetrization, self edges.
  virtual const ExpandSpec& expand() const = 0;
  virtual std::unique_ptr<ExampleBuilder> NewBuilder() const = 0;
  /// DataLoss where stored data that examples are made of are known to be damaged, saying what
  /// would let the pipeline go on without them. Whatever was built before the call counts only if
  /// this is ok. Cheap: asked for every batch.
  virtual Status CheckIntact() const { return OkStatus(); }
  /// Upper estimate of one example's packed bytes; 0: unknown.
  virtual std::uint64_t max_example_bytes() const { return 0; }

  // --- Static tables -------------------------------------------------------------------------
  virtual v1::LabelCounts label_counts() const = 0;
  /// Writes the v1::Static of the source as it is serialized; always the same bytes.
  virtual void WriteStatic(google::protobuf::io::CodedOutputStream& out) const = 0;
};

}  // namespace millrace
