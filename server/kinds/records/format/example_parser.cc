#include "server/kinds/records/format/example_parser.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "common/base/utf8.h"
#include "server/kinds/records/format/wire_reader.h"

namespace millrace {
namespace {

/// How many groups may nest in each of the messages, which are nested themselves.
constexpr int kInExample = kMostNestedMessages;
constexpr int kInFeatures = kInExample - 1;
constexpr int kInEntry = kInExample - 2;
constexpr int kInFeature = kInExample - 3;
constexpr int kInList = kInExample - 4;

constexpr std::uint32_t kFirstBytes = WireTag(1, WireType::kBytes);
constexpr std::uint32_t kSecondBytes = WireTag(2, WireType::kBytes);
constexpr std::uint32_t kThirdBytes = WireTag(3, WireType::kBytes);

/// Up to as many wanted features are searched one by one.
constexpr std::size_t kFewNames = 16;

/// Protobuf reads no larger messages.
constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max();

template <class Values>
bool ParseBytesList(std::span<const std::byte> list, Values& values) {
  WireReader reader(list);
  while (!reader.AtEnd()) {
    std::uint32_t tag;
    if (!reader.ReadTag(tag)) return false;
    if (tag != kFirstBytes) {
      if (!reader.SkipField(tag, kInList)) return false;
      continue;
    }
    std::span<const std::byte> value;
    if (!reader.ReadBytes(value)) return false;
    values.AddBytes(value);
  }
  return true;
}

template <class Values>
bool ParseFloatList(std::span<const std::byte> list, Values& values) {
  WireReader reader(list);
  while (!reader.AtEnd()) {
    std::uint32_t tag;
    if (!reader.ReadTag(tag)) return false;
    std::span<const std::byte> run;
    if (tag == kFirstBytes) {
      if (!reader.ReadBytes(run) || run.size() % 4 != 0) return false;
    } else if (tag == WireTag(1, WireType::kFixed32)) {
      if (!reader.ReadFixed(4, run)) return false;
    } else if (!reader.SkipField(tag, kInList)) {
      return false;
    }
    values.AddFloats(run);
  }
  return true;
}

template <class Values>
bool ParseInt64List(std::span<const std::byte> list, Values& values) {
  WireReader reader(list);
  while (!reader.AtEnd()) {
    std::uint32_t tag;
    if (!reader.ReadTag(tag)) return false;
    if (tag == kFirstBytes) {
      std::span<const std::byte> varints;
      if (!reader.ReadBytes(varints) || !values.AddInts(varints)) return false;
    } else if (tag == WireTag(1, WireType::kVarint)) {
      std::uint64_t value;
      if (!reader.ReadVarint(value)) return false;
      values.AddInt(value);
    } else if (!reader.SkipField(tag, kInList)) {
      return false;
    }
  }
  return true;
}

/// Adds the lists of a message Feature to `values`.
template <class Values>
bool ParseFeature(std::span<const std::byte> feature, Values& values) {
  WireReader reader(feature);
  while (!reader.AtEnd()) {
    std::uint32_t tag;
    if (!reader.ReadTag(tag)) return false;
    if (tag != kFirstBytes && tag != kSecondBytes && tag != kThirdBytes) {
      if (!reader.SkipField(tag, kInFeature)) return false;
      continue;
    }
    std::span<const std::byte> list;
    if (!reader.ReadBytes(list)) return false;
    bool good;
    if (tag == kFirstBytes) {
      values.BeginList(FeatureKind::kBytes);
      good = ParseBytesList(list, values);
    } else if (tag == kSecondBytes) {
      values.BeginList(FeatureKind::kFloat);
      good = ParseFloatList(list, values);
    } else {
      values.BeginList(FeatureKind::kInt64);
      good = ParseInt64List(list, values);
    }
    if (!good) return false;
  }
  return true;
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// An entry of the map of features. Its key and its value may come in any order, and several times:
/// the last key counts, and the values are merged.
struct MapEntry {
  std::span<const std::byte> message;
  std::span<const std::byte> key;
  std::span<const std::byte> value;  // the last one
  std::size_t values = 0;
};

/// Protobuf refuses keys that are not UTF-8. Most are ASCII, which is told quickly.
bool IsKey(std::span<const std::byte> key) {
  std::byte any{0};
  for (const std::byte byte : key) any |= byte;
  return static_cast<unsigned>(any) < 0x80 || IsUtf8(AsText(key));
}

bool ReadEntry(std::span<const std::byte> message, MapEntry& entry) {
  entry.message = message;
  WireReader reader(message);
  while (!reader.AtEnd()) {
    std::uint32_t tag;
    if (!reader.ReadTag(tag)) return false;
    if (tag == kFirstBytes) {
      if (!reader.ReadBytes(entry.key) || !IsKey(entry.key)) return false;
    } else if (tag == kSecondBytes) {
      if (!reader.ReadBytes(entry.value)) return false;
      ++entry.values;
    } else if (!reader.SkipField(tag, kInEntry)) {
      return false;
    }
  }
  return true;
}

/// Sets `values` to what the entry holds.
template <class Values>
bool ParseValues(const MapEntry& entry, Values& values) {
  values.Reset();
  if (entry.values == 1) return ParseFeature(entry.value, values);
  WireReader reader(entry.message);
  while (!reader.AtEnd()) {
    std::uint32_t tag;
    if (!reader.ReadTag(tag)) return false;
    std::span<const std::byte> value;
    if (tag == kSecondBytes) {
      if (!reader.ReadBytes(value) || !ParseFeature(value, values)) return false;
    } else if (!reader.SkipField(tag, kInEntry)) {
      return false;
    }
  }
  return true;
}

/// Calls `on_entry(key, entry)` for each entry of the map, in order; it returns false to stop.
template <class OnEntry>
bool ParseFeatures(std::span<const std::byte> features, OnEntry& on_entry) {
  WireReader reader(features);
  while (!reader.AtEnd()) {
    std::uint32_t tag;
    if (!reader.ReadTag(tag)) return false;
    if (tag != kFirstBytes) {
      if (!reader.SkipField(tag, kInFeatures)) return false;
      continue;
    }
    std::span<const std::byte> message;
    MapEntry entry;
    if (!reader.ReadBytes(message) || !ReadEntry(message, entry)) return false;
    if (!on_entry(AsText(entry.key), entry)) return false;
  }
  return true;
}

/// `has_lists`: set to whether the message has the lists of a SequenceExample.
template <class OnEntry>
bool ParseExample(std::span<const std::byte> example, bool& has_lists, OnEntry on_entry) {
  has_lists = false;
  if (example.size() > kMostBytes) return false;
  WireReader reader(example);
  while (!reader.AtEnd()) {
    std::uint32_t tag;
    if (!reader.ReadTag(tag)) return false;
    if (tag == kSecondBytes) {
      std::span<const std::byte> lists;
      if (!reader.ReadBytes(lists)) return false;
      has_lists = has_lists || !lists.empty();
      continue;
    }
    if (tag != kFirstBytes) {
      if (!reader.SkipField(tag, kInExample)) return false;
      continue;
    }
    std::span<const std::byte> features;
    if (!reader.ReadBytes(features) || !ParseFeatures(features, on_entry)) return false;
  }
  return true;
}

}  // namespace

ExampleParser::ExampleParser(std::vector<std::string> names)
    : names_(std::move(names)), features_(names_.size()) {
  if (names_.size() <= kFewNames) return;
  by_name_.resize(names_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [this](std::size_t a, std::size_t b) { return names_[a] < names_[b]; });
}

std::size_t ExampleParser::Find(std::string_view name) {
  const std::size_t count = names_.size();
  if (guess_ < count && names_[guess_] == name) return guess_;
  if (by_name_.empty()) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    return static_cast<std::size_t>(found - names_.begin());
  }
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](std::size_t i, std::string_view key) { return names_[i] < key; });
  return found != by_name_.end() && names_[*found] == name ? *found : count;
}

bool ExampleParser::Parse(std::span<const std::byte> example) {
  for (FeatureValues& feature : features_) feature.Reset();
  guess_ = 0;
  return ParseExample(example, has_lists_, [this](std::string_view key, const MapEntry& entry) {
    const std::size_t i = Find(key);
    if (i == names_.size()) {
      FeatureCount unwanted;
      return ParseValues(entry, unwanted);
    }
    guess_ = i + 1;
    return ParseValues(entry, features_[i]);
  });
}

bool ExampleLister::Parse(std::span<const std::byte> example) {
  features_.clear();
  const bool good =
      ParseExample(example, has_lists_, [this](std::string_view key, const MapEntry& entry) {
        FeatureCount count;
        if (!ParseValues(entry, count)) return false;
        features_.push_back({.name = key, .kind = count.kind(), .count = count.count()});
        return true;
      });
  if (!good) features_.clear();
  KeepLastOfEachName();
  return good;
}

void ExampleLister::KeepLastOfEachName() {
  std::stable_sort(features_.begin(), features_.end(),
                   [](const Feature& a, const Feature& b) { return a.name < b.name; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < features_.size(); ++i) {
    if (i + 1 < features_.size() && features_[i + 1].name == features_[i].name) continue;
    features_[kept++] = features_[i];
  }
  features_.resize(kept);
}

}  // namespace millrace
