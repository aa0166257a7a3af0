// A source: the examples that a plan draws from. It numbers the examples, gives their columns (for
// filters, splits and tools) without building them, and builds them into batches. The Coq dataset
// has two sources (coq_source). Others implement the same interface and are added to the source
// table.
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

/// Builds examples, and holds the memory that is reused between them. Not thread-safe.
class ExampleBuilder {
 public:
  virtual ~ExampleBuilder() = default;

  /// Appends the examples in this order. Each becomes the next graph of `writer`, or is recorded
  /// with AddDropped if it is dropped. DataLoss that names the file if stored data are damaged; the
  /// writer is then unusable until its next Begin. REQUIRES: ids are below source.examples();
  /// `writer` has the source's tensors.
  virtual Status Append(std::span<const ExampleId> ids, BatchWriter& writer) = 0;
};

/// Facts about an example for people, found without building it.
struct ExampleDescription {
  std::string file;
  std::string definition;                // name of its first definition, or of its object
  std::optional<std::uint32_t> step;     // step of a proof
  std::optional<std::uint32_t> outcome;  // outcome of the step
  std::optional<bool> faithful;
  std::vector<std::string> members;  // names of all definitions of a cluster
};

/// The data that plans need of many examples.
struct ExampleColumns {
  std::optional<std::uint64_t> split_identity;
  std::uint32_t file = 0;
  bool faithful = true;
  bool none_argument = false;
};

/// Which columns are wanted. The others may stay unset.
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

  /// The digest of the data. Equal digests mean equal examples, on any host.
  virtual Digest128 digest() const = 0;
  /// The name as in `source:` of a pipeline.
  virtual std::string_view name() const = 0;
  /// Number of examples. Ids are 0 … examples() - 1.
  virtual std::uint64_t examples() const = 0;

  // --- Columns -------------------------------------------------------------------------------
  /// The key that decides the label under a hash split. Empty: the label is 0, whatever the seed.
  /// Examples with the same key tend to be neighbours.
  virtual std::optional<std::uint64_t> SplitIdentity(ExampleId id) const = 0;
  /// Number of the file that the example comes from.
  virtual std::uint32_t File(ExampleId id) const = 0;
  /// The label of every file under `file_prefix`. InvalidArgument if the prefixes do not fit.
  virtual Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const = 0;
  /// Used by exclude_not_faithful and exclude_none_arguments.
  virtual bool Faithful(ExampleId /*id*/) const { return true; }
  virtual bool HasNoneArgument(ExampleId /*id*/) const { return false; }
  /// Reads columns of consecutive examples, beginning with `first`. The values are those of the
  /// functions above, but this is faster. REQUIRES: the source has the examples.
  virtual void ReadColumns(ExampleId first, const WantedColumns& wanted,
                           std::span<ExampleColumns> columns) const;
  virtual ExampleDescription Describe(ExampleId id) const = 0;

  // --- Batches -------------------------------------------------------------------------------
  /// Every tensor of a batch. Types are as narrow as the bounds of nodes, edges and labels allow.
  virtual const std::vector<TensorSpec>& tensors() const = 0;
  /// How the client completes edges: base labels, symmetrization, self edges.
  virtual const ExpandSpec& expand() const = 0;
  virtual std::unique_ptr<ExampleBuilder> NewBuilder() const = 0;
  /// DataLoss if data from which examples are made are known to be damaged; the message says how
  /// the pipeline can go on without them. A batch built before this call counts only if the result
  /// is ok. Cheap: it is called for every batch.
  virtual Status CheckIntact() const { return OkStatus(); }
  /// An upper estimate of the packed bytes of one example; 0: unknown.
  virtual std::uint64_t max_example_bytes() const { return 0; }

  // --- Static tables -------------------------------------------------------------------------
  virtual v1::LabelCounts label_counts() const = 0;
  /// Writes the v1::Static of the source in serialized form. The bytes are always the same.
  virtual void WriteStatic(google::protobuf::io::CodedOutputStream& out) const = 0;
};

}  // namespace millrace
