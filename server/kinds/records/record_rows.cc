#include "server/kinds/records/record_rows.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "common/batch/batch_writer.h"

namespace millrace {
namespace {

/// The names of all features, each once.
std::vector<std::string> NamesToParse(const std::vector<RecordFeature>& features) {
  std::vector<std::string> names;
  for (const RecordFeature& feature : features) {
    if (std::find(names.begin(), names.end(), feature.feature) == names.end()) {
      names.push_back(feature.feature);
    }
  }
  return names;
}

/// The extents of a dense row, for messages: "[194]".
std::string Extents(const TensorType& type) {
  std::string text;
  for (const std::uint32_t extent : type.inner) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", extent);
  }
  return "[" + text + "]";
}

/// The message about a number of values that does not suit the type.
std::string WrongCount(const RecordFeature& feature, std::uint64_t count) {
  const bool bytes = feature.kind == FeatureKind::kBytes;
  const std::string got =
      fmt::format("{}: {} {}", feature.tensor, count, bytes ? "bytes" : "values");
  if (feature.type.ragged) {
    return fmt::format("{}, expected a multiple of {}", got, feature.type.UnitElements());
  }
  // That one value is expected goes without saying.
  if (feature.type.inner.empty()) return got;
  return fmt::format("{}, expected {}", got, Extents(feature.type));
}

}  // namespace

RecordRows::RecordRows(const std::vector<RecordFeature>& features, const DeclaredTensors& tensors)
    : features_(features), tensors_(tensors), parser_(NamesToParse(features)) {
  const std::vector<std::string> names = NamesToParse(features);
  for (const RecordFeature& feature : features) {
    const auto parsed = std::find(names.begin(), names.end(), feature.feature);
    rows_.push_back({static_cast<std::size_t>(parsed - names.begin()), feature.type.UnitBytes()});
  }
}

std::string RecordRows::Check(std::span<const std::byte> data) {
  if (!parser_.Parse(data)) return "no tf.train.Example";
  if (parser_.is_sequence()) {
    return "a tf.train.SequenceExample, which is not supported; expected tf.train.Example";
  }
  for (std::size_t f = 0; f < rows_.size(); ++f) {
    const RecordFeature& feature = features_[f];
    const FeatureValues& parsed = parser_.feature(rows_[f].parsed);
    rows_[f].absent = parsed.kind() == FeatureKind::kAbsent;
    if (rows_[f].absent) {
      if (!feature.fallback) return fmt::format("feature {} is missing", feature.tensor);
      rows_[f].elements = feature.type.ragged ? feature.fallback->size() / rows_[f].row_bytes : 1;
      rows_[f].texts = feature.fallback_lengths.size();
      continue;
    }
    if (parsed.kind() != feature.kind) {
      return fmt::format("feature {} has another type", feature.tensor);
    }
    if (feature.texts) {
      MeasureTexts(f);
      continue;
    }
    const bool bytes = feature.kind == FeatureKind::kBytes;
    if (bytes && parsed.count() != 1) {
      return fmt::format("{}: {} values", feature.tensor, parsed.count());
    }
    const std::uint64_t count = bytes ? parsed.bytes().front().size() : parsed.count();
    const std::uint64_t unit = feature.type.UnitElements();
    if (feature.type.ragged ? count % unit != 0 : count != unit) return WrongCount(feature, count);
    rows_[f].elements = feature.type.ragged ? count / unit : 1;
  }
  return {};
}

void RecordRows::MeasureTexts(std::size_t f) {
  Row& row = rows_[f];
  const auto texts = parser_.feature(row.parsed).bytes();
  row.texts = texts.size();
  row.elements = 0;
  for (const std::span<const std::byte> text : texts) row.elements += text.size();
}

std::span<const std::byte> RecordRows::BytesOf(std::size_t f) const {
  if (rows_[f].absent) return *features_[f].fallback;
  const FeatureValues& values = parser_.feature(rows_[f].parsed);
  switch (values.kind()) {
    case FeatureKind::kBytes:
      return values.bytes().front();
    case FeatureKind::kFloat:
      return values.float_bytes();
    case FeatureKind::kInt64:
      return std::as_bytes(values.ints());
    case FeatureKind::kAbsent:
      break;
  }
  return {};
}

void RecordRows::WriteTexts(std::size_t f, BatchWriter& writer) const {
  const Row& row = rows_[f];
  const RecordFeature& feature = features_[f];
  std::byte* to = writer.AppendRows(tensors_.numbers[f], row.elements).data();
  // No text has more bytes than all have together.
  auto* lengths = writer.AppendRoom<std::uint32_t>(tensors_.LengthsOf(f), row.texts, row.elements);
  if (row.absent) {
    std::copy(feature.fallback->begin(), feature.fallback->end(), to);
    std::copy(feature.fallback_lengths.begin(), feature.fallback_lengths.end(), lengths);
    return;
  }
  for (const std::span<const std::byte> text : parser_.feature(row.parsed).bytes()) {
    to = std::copy(text.begin(), text.end(), to);
    *lengths++ = static_cast<std::uint32_t>(text.size());
  }
}

void RecordRows::Write(ExampleId id, BatchWriter& writer) const {
  writer.AppendOne(tensors_.example_id, static_cast<std::int64_t>(id.value()));
  for (std::size_t f = 0; f < rows_.size(); ++f) {
    const Row& row = rows_[f];
    if (features_[f].texts) {
      WriteTexts(f, writer);
      continue;
    }
    if (row.elements == 0) continue;
    const std::span<std::byte> room = writer.AppendRows(tensors_.numbers[f], row.elements);
    const std::span<const std::byte> bytes = BytesOf(f);
    // A default may be one value for all of a row.
    for (std::size_t at = 0; at < room.size(); at += bytes.size()) {
      std::memcpy(room.data() + at, bytes.data(), bytes.size());
    }
  }
  writer.EndExample(id);
}

}  // namespace millrace
