// From a record's bytes to the rows of a batch.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "server/kinds/records/format/example_parser.h"
#include "server/kinds/records/record_features.h"
#include "server/source/declared_tensors.h"

namespace millrace {

class BatchWriter;

class RecordRows {
 public:
  /// `tensors` are the tensors of the features. Both have to outlive this object.
  RecordRows(const std::vector<RecordFeature>& features, const DeclaredTensors& tensors);

  /// Why a record does not fit the features, for people; empty if it does.
  std::string Check(std::span<const std::byte> data);
  /// Appends an example with the rows of the record that was checked last, whose bytes are still
  /// there. REQUIRES: it fits.
  void Write(ExampleId id, BatchWriter& writer) const;

 private:
  /// A feature's row, of the current record.
  struct Row {
    std::size_t parsed = 0;       // the number of the feature in the parser
    std::uint64_t row_bytes = 0;  // of a dense tensor's row, or of an element
    std::uint64_t elements = 0;   // of the row; 1 if the tensor is dense
    std::size_t texts = 0;        // in the row, if it is a list of these
    bool absent = false;
  };

  /// The bytes of a feature's row, which is not a list of texts. REQUIRES: as Write.
  std::span<const std::byte> BytesOf(std::size_t feature) const;
  /// Counts the texts of a row, and their bytes.
  void MeasureTexts(std::size_t feature);
  /// Appends a row of texts and their lengths. REQUIRES: as Write.
  void WriteTexts(std::size_t feature, BatchWriter& writer) const;

  const std::vector<RecordFeature>& features_;
  const DeclaredTensors& tensors_;
  ExampleParser parser_;
  std::vector<Row> rows_;
};

}  // namespace millrace
