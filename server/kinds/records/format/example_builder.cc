#include "server/kinds/records/format/example_builder.h"

#include <algorithm>
#include <bit>

#include "server/kinds/records/format/wire_reader.h"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "floats are little endian");

constexpr std::uint32_t kBytesListField = 1;
constexpr std::uint32_t kFloatListField = 2;
constexpr std::uint32_t kInt64ListField = 3;

std::size_t VarintBytes(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

void PutVarint(std::uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

/// A field's tag, and the length of what follows.
void PutHead(std::uint32_t field, std::size_t length, std::string& out) {
  PutVarint(WireTag(field, WireType::kBytes), out);
  PutVarint(length, out);
}

void PutField(std::uint32_t field, std::string_view value, std::string& out) {
  PutHead(field, value.size(), out);
  out += value;
}

/// The bytes of such a field.
std::size_t FieldBytes(std::size_t length) { return 1 + VarintBytes(length) + length; }

}  // namespace

std::string& ExampleBuilder::Begin(std::string_view name) {
  if (count_ == entries_.size()) entries_.emplace_back();
  Entry& entry = entries_[count_++];
  entry.name = name;
  entry.feature.clear();
  list_.clear();
  return entry.feature;
}

void ExampleBuilder::AddBytes(std::string_view name, std::span<const std::string_view> values) {
  std::string& feature = Begin(name);
  for (const std::string_view value : values) PutField(1, value, list_);
  PutField(kBytesListField, list_, feature);
}

void ExampleBuilder::AddFloats(std::string_view name, std::span<const float> values) {
  std::string& feature = Begin(name);
  if (!values.empty()) {
    const std::span<const std::byte> bytes = std::as_bytes(values);
    PutField(1, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, list_);
  }
  PutField(kFloatListField, list_, feature);
}

void ExampleBuilder::AddInts(std::string_view name, std::span<const std::int64_t> values) {
  std::string& feature = Begin(name);
  if (!values.empty()) {
    std::size_t length = 0;
    for (const std::int64_t value : values) {
      length += VarintBytes(static_cast<std::uint64_t>(value));
    }
    PutHead(1, length, list_);
    for (const std::int64_t value : values) PutVarint(static_cast<std::uint64_t>(value), list_);
  }
  PutField(kInt64ListField, list_, feature);
}

std::span<const std::byte> ExampleBuilder::Finish() {
  const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(count_);
  std::sort(entries_.begin(), end, [](const Entry& a, const Entry& b) { return a.name < b.name; });
  features_.clear();
  for (auto entry = entries_.begin(); entry != end; ++entry) {
    PutHead(1, FieldBytes(entry->name.size()) + FieldBytes(entry->feature.size()), features_);
    PutField(1, entry->name, features_);
    PutField(2, entry->feature, features_);
  }
  example_.clear();
  PutField(1, features_, example_);
  return std::as_bytes(std::span(example_));
}

}  // namespace millrace
