// Measured columns: numbers of examples that are known only once the examples are built, such as
// the nodes of a closure or the label of a record. They are found for every example of a source,
// before split, filter and exclude, so that all pipelines over these examples have the same
// columns. (Beside packs, each list of excluded examples has columns of its own: one of them may be
// an example with which every other pipeline ends.)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/batch/arena.h"
#include "common/batch/batch_writer.h"
#include "server/source/measured_values.h"
#include "server/source/source.h"

namespace millrace {

/// A column that a source does not have, but whose values can be measured.
struct MeasurableColumn {
  std::string name;  // as expressions read it
  MeasuredType type = MeasuredType::kCount;
  std::size_t tensor = 0;  // the number of the tensor with the values or the splits
  friend bool operator==(const MeasurableColumn&, const MeasurableColumn&) = default;
};

/// The columns that can be measured: `nodes` and `edges` if examples have any, `NAME.length` of
/// each tensor NAME that splits cut, and NAME of each tensor with one int64 or float32 per example,
/// with '/' written as '.'. Columns that the source has already are left out.
std::vector<MeasurableColumn> MeasurableColumns(const Source& source);

/// Measures the examples of a source, some at a time. Not thread-safe; the source must outlive it.
class Measurer {
 public:
  /// `excluded`: examples, ascending, that have no value if building them fails; otherwise that is
  /// an error. REQUIRES: the columns are among MeasurableColumns.
  static Result<Measurer> Make(const Source& source, std::vector<MeasurableColumn> columns,
                               std::vector<std::uint64_t> excluded = {});

  const std::vector<MeasurableColumn>& columns() const { return columns_; }
  /// The values of the examples [first, first + count): values[c] are the values of the c-th
  /// column. A dropped example has no value. DataLoss that names the file if data are damaged.
  /// REQUIRES: the source has the examples.
  Status Measure(ExampleId first, std::uint64_t count, std::vector<WideValues>& values);

 private:
  /// The value of a row of a batch in a column, as WideValues has it.
  static std::uint64_t ValueOf(const PackedBatch& batch, std::size_t tensor, MeasuredType type,
                               std::size_t row);

  Measurer(const Source& source, std::vector<MeasurableColumn> columns,
           std::vector<std::uint64_t> excluded, std::unique_ptr<BufferPool> pool,
           BatchWriter writer);

  bool IsExcluded(ExampleId id) const;
  /// Builds examples together, and sets their values. `first`: the example of the first value.
  Status MeasureTogether(std::span<const ExampleId> ids, ExampleId first,
                         std::vector<WideValues>& values);

  const Source* source_;
  std::vector<MeasurableColumn> columns_;
  std::vector<std::uint64_t> excluded_;
  std::unique_ptr<BufferPool> pool_;  // of the writer
  BatchWriter writer_;
  std::unique_ptr<ExampleReader> reader_;
};

}  // namespace millrace
