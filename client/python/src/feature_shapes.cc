#include "client/python/src/feature_shapes.h"

#include <algorithm>

namespace millrace::python {

void CountRange::Add(std::uint64_t count, bool first) {
  least = first ? count : std::min(least, count);
  most = first ? count : std::max(most, count);
}

bool FeatureShapes::Note(std::span<const std::byte> example) {
  if (!lister_.Parse(example)) return false;
  bool more_of_bytes = false;
  for (const ExampleLister::Feature& feature : lister_.features()) {
    if (feature.kind == FeatureKind::kAbsent) continue;
    auto at = by_name_.find(feature.name);
    if (at == by_name_.end()) at = by_name_.try_emplace(std::string(feature.name)).first;
    FeatureShape& shape = at->second;
    const bool new_kind = shape.kinds.insert(feature.kind).second;
    more_of_bytes = more_of_bytes || (new_kind && feature.kind == FeatureKind::kBytes);
    shape.values.Add(feature.count, shape.examples == 0);
    ++shape.examples;
  }
  if (more_of_bytes) {
    std::vector<std::string> names;
    parsed_.clear();
    for (auto& [name, shape] : by_name_) {
      if (!shape.kinds.contains(FeatureKind::kBytes)) continue;
      names.push_back(name);
      parsed_.push_back(&shape);
    }
    parser_ = std::make_unique<ExampleParser>(std::move(names));
  }
  if (parser_ == nullptr) return true;
  if (!parser_->Parse(example)) return false;
  for (std::size_t i = 0; i < parsed_.size(); ++i) {
    for (const std::span<const std::byte> value : parser_->feature(i).bytes()) {
      parsed_[i]->bytes.Add(value.size(), !parsed_[i]->has_bytes);
      parsed_[i]->has_bytes = true;
    }
  }
  return true;
}

}  // namespace millrace::python
