// A source: the examples that a plan draws from. It numbers the examples, gives their columns (for
// filters, splits and tools) without building them, and reads them into batches. Each kind of
// dataset has a table of its sources (source_table.h).
//
// A Source is immutable and thread-safe; an ExampleReader belongs to one thread. A reader must not
// outlive its source.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/example_description.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/tables.h"
#include "common/batch/layout/drop_reasons.h"
#include "common/batch/layout/layout.h"
#include "common/operations/operation.h"
#include "server/source/example_names.h"
#include "server/source/split.h"

namespace millrace {

class BatchWriter;  // common/batch/batch_writer.h
class LateRows;     // common/batch/late_rows.h
class TableWriter;  // common/transport/convert/table_writer.h

/// Reads examples into batches, and holds the memory that is reused between them. Not thread-safe.
class ExampleReader {
 public:
  virtual ~ExampleReader() = default;

  /// Appends the examples in this order. Each becomes the next graph of `writer`, or is recorded
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
  std::size_t column = 0;  // its number in Source::columns
  std::span<std::int64_t> values;
  /// Whether to give 1 in place of each value, and 0 where a value is missing. REQUIRES: the column
  /// is a feature (Source::IsFeature).
  bool presence = false;
};

/// The meaning of a column whose values are not plain. It matters where the tables of several
/// sources become one (server/plan/mix/joined_tables.h), which moves rows.
enum class ColumnRole : std::uint8_t {
  kReference,  // rows of a table
  kCount,      // how often the row occurs in the data; of joined rows the sum
  kRun,        // how many rows of a table belong to this row. All runs follow each other, and the
               // last one ends at the last row of that table; rows before the first belong to no
               // row
};

/// A column with a role: it does not just identify its row.
struct ColumnMeaning {
  std::string column;  // of type kUnsigned
  ColumnRole role = ColumnRole::kReference;
  std::string table = {};  // whose rows are meant; may be the column's own table. Empty for kCount
  bool or_none = false;    // of kReference: the value is a row plus 1, or 0 for no row
};

/// One of the parts into which a plan may cut an example (`chunk`).
struct ExampleChunk {
  ExampleId example;         // that is cut
  std::uint64_t number = 0;  // of the chunk within it, from 0 on
  friend bool operator==(const ExampleChunk&, const ExampleChunk&) = default;
};

/// The ids of all chunks of an example: `count` of them, from `first` on.
struct ChunkIds {
  ExampleId first;
  std::uint64_t count = 1;
  friend bool operator==(const ChunkIds&, const ChunkIds&) = default;
};

/// A table of a source, without its values.
struct SourceTableSpec {
  TableSpec table;                   // without a digest
  std::vector<std::string> tensors;  // paths of the tensors with numbers of its rows
  /// Columns with a role. All other columns identify a row: rows that agree in them, and in the
  /// rows that they refer to, are the same, whatever the source.
  std::vector<ColumnMeaning> meanings = {};
  bool first_is_none = false;  // row 0 means "no row"; its values mean nothing
};

class Source;

/// One of the sources that a source mixes.
struct SourceBranch {
  std::string name;
  std::string dataset;  // id
  std::shared_ptr<const Source> source;
  std::uint64_t first = 0;  // the number, in the mix, of its first example
};

class Source {
 public:
  virtual ~Source() = default;

  /// The digest of the data. Equal digests mean equal examples, on any host.
  virtual Digest128 digest() const = 0;
  /// The digest that the dataset itself has. It differs from digest() if the source gives more than
  /// the dataset: a plugin's examples depend on its arguments.
  virtual Digest128 data_digest() const { return digest(); }
  /// A user's code that decides what is built. It is part of a plan's fingerprint, not of the
  /// order's fingerprint. Empty: no such code.
  virtual std::string code() const { return {}; }
  /// Whether an example changes from epoch to epoch. Then it has no measured columns, and is not
  /// kept in a cache.
  virtual bool varies() const { return false; }
  /// The name as in `source:` of a pipeline.
  virtual std::string_view name() const = 0;
  /// Number of examples. Ids are 0 … examples() - 1.
  virtual std::uint64_t examples() const = 0;
  /// The sources that it mixes. Its examples are the examples of its branches, one branch after the
  /// other. Empty: it is no mix.
  virtual std::span<const SourceBranch> branches() const { return {}; }

  // --- Columns: one number per example, known without building it ---------------------------
  /// Names of the columns.
  virtual const std::vector<std::string>& columns() const = 0;
  /// Reads columns of consecutive examples, beginning with `first`. Each gets as many values as it
  /// has room for; all have room for equally many. REQUIRES: the source has the examples.
  virtual void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const = 0;
  /// Whether a column has values of float64; ReadColumns then gives their bits. Others are
  /// integers.
  virtual bool HasFloats(std::size_t /*column*/) const { return false; }
  /// Whether a column has a scalar feature of examples, of int64 or, if HasFloats, of float32. An
  /// example may lack it, and then fails each comparison with it.
  virtual bool IsFeature(std::size_t /*column*/) const { return false; }
  /// Whether a measured column has no value for an example, because it cannot be built. Such a
  /// column reads 0 for it. False for columns that are not measured.
  virtual bool Unmeasured(std::size_t /*column*/, ExampleId /*id*/) const { return false; }
  /// The column whose values decide the labels under a hash split. Examples with the same value
  /// tend to be neighbours. Empty: all labels are 0, whatever the seed.
  virtual std::string_view split_column() const { return {}; }
  /// The label of every file under `file_prefix`, by the numbers of kFileColumn. InvalidArgument if
  /// the prefixes do not fit.
  virtual Result<std::vector<std::uint32_t>> FileLabels(const SplitOptions& options) const;

  /// The number of a column. InvalidArgument, with the existing columns.
  Result<std::size_t> FindColumn(std::string_view column) const;
  /// Describes a whole example to a person, without building it. REQUIRES: id < whole_examples().
  virtual ExampleDescription Describe(ExampleId id) const = 0;

  // --- Chunks: a plan may cut an example into several, which it then counts as examples ----------
  // By default every example is one chunk.
  /// The whole example of which an example of this source is a chunk. REQUIRES: the source has it.
  virtual ExampleChunk ChunkOf(ExampleId id) const { return {id, 0}; }
  /// Number of examples that are cut, or stay whole. Their ids are the ids of the source before
  /// cutting, 0 … whole_examples() - 1. Batches name them as the ids of their rows.
  virtual std::uint64_t whole_examples() const { return examples(); }
  /// REQUIRES: example < whole_examples().
  virtual ChunkIds ChunksOf(ExampleId example) const { return {example}; }
  /// Whether each chunk of an example is to be built for itself, because something draws random
  /// numbers in it (BatchWriter::SetChunks). Otherwise one build gives all its chunks.
  virtual bool draws_by_chunk() const { return false; }
  /// Paths of the ragged tensors whose places other tensors count. These must not be cut.
  virtual std::vector<std::string> counted_tensors() const { return {}; }

  // --- Batches -------------------------------------------------------------------------------
  /// Every tensor of a batch. Types are as narrow as the bounds of nodes, edges and labels allow.
  virtual const std::vector<TensorSpec>& tensors() const = 0;
  /// How the client completes edges: base labels, symmetrization, self-loops.
  virtual const ExpandSpec& expand() const = 0;
  virtual std::unique_ptr<ExampleReader> NewReader() const = 0;
  /// Tensors whose rows readers need not append, if the writer allows it (BatchWriter::AllowLate);
  /// nullptr if there are none. It lives as long as the source.
  virtual const LateRows* late_rows() const { return nullptr; }
  /// Whether readers themselves drop the examples that the pipeline excludes, and are given all
  /// examples of a batch at once: in merged batches (ExpandSpec::merged) one depends on the others.
  virtual bool drops_excluded() const { return false; }
  /// Whether each row depends on its example and its pass alone, so that the examples of a batch
  /// may be given to several readers, each some of them.
  virtual bool by_row() const { return !expand().merged && !drops_excluded(); }
  /// The pools of a plugin's processes that readers ask, by PluginPool::number.
  virtual std::set<std::uint64_t> pools() const { return {}; }
  /// The name of the stage of builds in which readers work. It is never freed.
  virtual std::string_view reading_stage() const { return "closure"; }
  /// Names for the examples, by which a cache finds the built examples; null if a built example
  /// depends on more than the dataset and the operations. They must not outlive the source.
  virtual std::unique_ptr<const ExampleNames> NewNames() const { return nullptr; }
  /// Whether all data have been compared with the digests that names are made of. Examples built
  /// before that are not kept beyond the process. Cheap: it is called for every batch.
  virtual bool verified() const { return true; }
  /// Arrays of the dataset in which `lookup` finds rows by number, by name. Types and values live
  /// as long as the source; values may change if their file does, which CheckIntact reports.
  virtual LookupTables arrays() const { return {}; }
  /// DataLoss if data from which examples are made are known to be damaged; the message says how
  /// the pipeline can go on without them. A batch built before this call counts only if the result
  /// is ok. Cheap: it is called for every batch.
  virtual Status CheckIntact() const { return OkStatus(); }
  /// Names of the reasons for which the source drops examples.
  virtual DropReasonNames drop_reasons() const { return {}; }
  /// An upper estimate of the packed bytes of one example; 0: unknown.
  virtual std::uint64_t max_example_bytes() const { return 0; }

  // --- Tables, to which numbers in batches refer --------------------------------------------
  /// Names, columns and numbers of rows. All are known at once.
  virtual std::vector<SourceTableSpec> tables() const { return {}; }
  /// Writes the columns of a table, in their order. The values are always the same. REQUIRES: there
  /// is a table of this number.
  virtual void WriteTable(std::size_t /*table*/, TableWriter& /*out*/) const {}
};

/// The number of the branch that has an example; 0 if there are no branches. REQUIRES: the mix has
/// the example.
std::size_t BranchOf(std::span<const SourceBranch> branches, ExampleId example);

/// The ids of all chunks of some examples, one example after another. REQUIRES: the source has the
/// whole examples.
std::vector<ExampleId> AllChunksOf(const Source& source, std::span<const ExampleId> examples);

}  // namespace millrace
