// A source: the examples that a plan draws from. It numbers the examples, gives their columns (for
// filters, splits and tools) without building them, and reads them into batches. Each kind of
// dataset has a table of its sources (source_table.h).
//
// A kind says the facts of a source, and implements three functions. What only some sources have
// (tables, names, arrays, chunks) has a default for those that have none.
//
// A Source is immutable and thread-safe; an ExampleReader belongs to one thread. A reader must not
// outlive its source.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/example_description.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/operations/operation.h"
#include "server/source/document_packs.h"
#include "server/source/element_reader.h"
#include "server/source/example_chunks.h"
#include "server/source/example_names.h"
#include "server/source/source_facts.h"
#include "server/source/source_tables.h"
#include "server/source/split.h"

namespace millrace {

class BatchWriter;  // common/batch/batch_writer.h
class LateRows;     // common/batch/late_rows.h

/// Reads examples into batches, and holds the memory that is reused between them. Not thread-safe.
class ExampleReader {
 public:
  virtual ~ExampleReader() = default;

  /// Appends the examples in this order. Each becomes the next row of `writer`, or is recorded
  /// with AddDropped if it is dropped. DataLoss that names the file if stored data are damaged; the
  /// writer is then unusable until its next Begin. REQUIRES: ids are below source.examples();
  /// `writer` has the source's tensors.
  virtual Status Append(std::span<const ExampleId> ids, BatchWriter& writer) = 0;
};

/// A dense tensor of this name has the examples' ids.
inline constexpr std::string_view kExampleIdTensor = "example_id";

/// The column with the number of the file that an example comes from.
inline constexpr const char* kFileColumn = "file";

/// A requested column of many examples, and where its values go.
struct ColumnValues {
  std::size_t column = 0;  // its number in SourceFacts::columns
  std::span<std::int64_t> values;
  /// Whether to give 1 in place of each value, and 0 where a value is missing. REQUIRES: the column
  /// is a feature.
  bool presence = false;
};

class Source {
 public:
  virtual ~Source() = default;

  const SourceFacts& facts() const { return facts_; }
  const std::string& name() const { return facts_.name; }
  Digest128 digest() const { return facts_.digest; }
  std::uint64_t examples() const { return facts_.examples; }
  const std::vector<SourceColumn>& columns() const { return facts_.columns; }
  const std::vector<TensorSpec>& tensors() const { return facts_.tensors; }
  const ExpandSpec& expand() const { return facts_.expand; }

  // --- What every source has ---------------------------------------------------------------------
  /// Reads columns of consecutive examples, beginning with `first`, without building the examples.
  /// Each gets as many values as it has room for; all have room for equally many. REQUIRES: the
  /// source has the examples.
  virtual void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const = 0;
  /// Describes a whole example to a person, without building it. REQUIRES: id < whole_examples().
  virtual ExampleDescription Describe(ExampleId id) const = 0;
  virtual std::unique_ptr<ExampleReader> NewReader() const = 0;

  // --- What some have ----------------------------------------------------------------------------
  /// DataLoss if data from which examples are made are known to be damaged; the message says how
  /// the pipeline can go on without them. A batch built before this call counts only if the result
  /// is ok. Cheap: it is called for every batch.
  virtual Status CheckIntact() const { return OkStatus(); }
  /// The label of every file under `file_prefix`, by the numbers of kFileColumn. InvalidArgument if
  /// the prefixes do not fit.
  virtual Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const;
  /// Its tables; nullptr if it has none.
  virtual const SourceTables* tables() const { return nullptr; }
  /// Names for the examples, by which a cache finds the built examples; null if a built example
  /// depends on more than the dataset and the operations. They must not outlive the source.
  virtual std::unique_ptr<const ExampleNames> NewNames() const { return nullptr; }
  /// Whether all data have been compared with the digests that names are made of. Examples built
  /// before that are not kept beyond the process. Cheap: it is called for every batch.
  virtual bool verified() const { return true; }
  /// Arrays of the dataset in which `lookup` finds rows by number, by name. Types and values live
  /// as long as the source; values may change if their file does, which CheckIntact reports.
  virtual LookupTables arrays() const { return {}; }
  /// Tensors whose rows readers need not append, if the writer allows it (BatchWriter::AllowLate);
  /// nullptr if there are none. It lives as long as the source.
  virtual const LateRows* late_rows() const { return nullptr; }

  /// A reader of parts of this ragged tensor; null if examples are read as a whole. REQUIRES: the
  /// source has the tensor.
  virtual std::unique_ptr<ElementReader> NewElementReader(std::size_t /*tensor*/) const {
    return nullptr;
  }

  // --- What plans add to a source ----------------------------------------------------------------
  /// Whether a measured column has no value for an example, because it cannot be built. Such a
  /// column reads 0 for it. False for columns that are not measured.
  virtual bool Unmeasured(std::size_t /*column*/, ExampleId /*id*/) const { return false; }
  /// The chunks into which the plan cuts its examples; nullptr if it cuts none.
  virtual const ExampleChunks* chunks() const { return nullptr; }
  /// The documents that the plan packs into rows, which are its examples; nullptr if it packs none.
  virtual const DocumentPacks* packs() const { return nullptr; }

  // --- Derived -----------------------------------------------------------------------------------
  /// The digest of the dataset itself.
  Digest128 data_digest() const { return facts_.data_digest.value_or(facts_.digest); }
  std::span<const SourceBranch> branches() const { return facts_.branches; }
  /// The number of a column. InvalidArgument, with the existing columns.
  Result<std::size_t> FindColumn(std::string_view column) const;
  /// Those of its tables; none if it has none.
  std::vector<SourceTableSpec> table_specs() const {
    return tables() == nullptr ? std::vector<SourceTableSpec>() : tables()->TableSpecs();
  }
  /// As of ExampleChunks. Where nothing is cut, every example is one chunk.
  ExampleChunk ChunkOf(ExampleId id) const {
    return chunks() == nullptr ? ExampleChunk{id, 0} : chunks()->ChunkOf(id);
  }
  std::uint64_t whole_examples() const {
    return chunks() == nullptr ? examples() : chunks()->whole_examples();
  }
  ChunkIds ChunksOf(ExampleId example) const {
    return chunks() == nullptr ? ChunkIds{example} : chunks()->ChunksOf(example);
  }

 protected:
  Source() = default;
  explicit Source(SourceFacts facts) : facts_(std::move(facts)) {}
  /// For constructors that find the facts last.
  void SetFacts(SourceFacts facts) { facts_ = std::move(facts); }

 private:
  SourceFacts facts_;
};

/// The names of a source's columns.
std::vector<std::string> ColumnNames(const Source& source);

/// The number of the branch that has an example; 0 if there are no branches. REQUIRES: the mix has
/// the example.
std::size_t BranchOf(std::span<const SourceBranch> branches, ExampleId example);

/// The ids of all chunks of some examples, one example after another. REQUIRES: the source has the
/// whole examples.
std::vector<ExampleId> AllChunksOf(const Source& source, std::span<const ExampleId> examples);

}  // namespace millrace
