#include "server/kinds/records/format/feature_values.h"

#include "server/kinds/records/format/wire_reader.h"

namespace millrace {
namespace {

/// The number of varints that end in these bytes.
std::size_t CountVarints(std::span<const std::byte> varints) {
  std::size_t count = 0;
  for (const std::byte byte : varints) count += static_cast<std::size_t>(byte) < 0x80 ? 1 : 0;
  return count;
}

}  // namespace

std::string_view FeatureKindName(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kAbsent:
      return "absent";
    case FeatureKind::kBytes:
      return "bytes";
    case FeatureKind::kFloat:
      return "float";
    case FeatureKind::kInt64:
      return "int64";
  }
  return "absent";
}

void FeatureValues::AddFloats(std::span<const std::byte> values) {
  if (values.empty()) return;
  if (count_ == 0) {
    run_ = values;
  } else {
    if (joined_.empty()) joined_.assign(run_.begin(), run_.end());
    joined_.insert(joined_.end(), values.begin(), values.end());
  }
  count_ += values.size() / 4;
}

bool FeatureValues::AddInts(std::span<const std::byte> varints) {
  const std::size_t before = ints_.size();
  count_ = before + CountVarints(varints);
  ints_.resize(count_);
  WireReader reader(varints);
  for (std::size_t i = before; i < count_; ++i) {
    std::uint64_t value;
    if (!reader.ReadVarint(value)) return false;
    ints_[i] = static_cast<std::int64_t>(value);
  }
  return reader.AtEnd();
}

bool FeatureCount::AddInts(std::span<const std::byte> varints) {
  WireReader reader(varints);
  while (!reader.AtEnd()) {
    std::uint64_t value;
    if (!reader.ReadVarint(value)) return false;
    ++count_;
  }
  return true;
}

}  // namespace millrace
