// The features of a pipeline over records: `source: {records: {name: type, …}}`.
//
// Value types and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/tensor/tensor_type.h"
#include "server/kinds/records/format/example_parser.h"
#include "server/kinds/records/index/records_index.h"
#include "server/source/declared_tensors.h"
#include "server/source/stage.h"

namespace millrace {

/// A tensor, and the feature from which its rows are read.
struct RecordFeature {
  std::string tensor;
  std::string feature;  // its name in tf.train.Example
  TensorType type;      // of bytes (uint8), int64 or float32
  bool texts = false;   // `str[*]`: a row is a list of texts. The type is the type of their bytes
  FeatureKind kind = FeatureKind::kBytes;
  /// The row of a record without the feature, or the one value that fills a dense row; nullopt:
  /// such a record is bad. By default a ragged tensor's row is then empty.
  std::optional<std::vector<std::byte>> fallback;
  /// Lengths of the texts in the fallback, if it is a list.
  std::vector<std::uint32_t> fallback_lengths = {};

  /// The type as a pipeline writes it, except for bytes: "float32[*, 80]", "uint8[194]", "str[*]".
  std::string TypeText() const;
  DeclaredTensor Declared() const { return {tensor, type, texts}; }
};

/// Reads the value of `records`. InvalidArgument that begins with ".name: " or ".name.key: ".
Result<std::vector<RecordFeature>> ReadRecordFeatures(const ParamValue& value);

/// Checks that each feature occurs in a record, in lists of its type. InvalidArgument that begins
/// with "source.records.name: ", and lists the features that occur. OK if there are no records.
Status CheckFeaturesOccur(std::span<const RecordFeature> features, const RecordsIndex& index);

}  // namespace millrace
