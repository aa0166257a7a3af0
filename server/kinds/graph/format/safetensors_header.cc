#include "server/kinds/graph/format/safetensors_header.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/quoted.h"
#include "server/kinds/graph/format/json_reader.h"

namespace millrace {
namespace {

// The limit of the format's own reader.
constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;
// The object of all tensors, a tensor's object, its shape.
constexpr int kMaxHeaderDepth = 3;

std::optional<DType> DTypeOfSafetensors(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, DType>, kDTypes> kNames = {
      {{"U8", DType::kUint8},
       {"U16", DType::kUint16},
       {"U32", DType::kUint32},
       {"U64", DType::kUint64},
       {"I8", DType::kInt8},
       {"I16", DType::kInt16},
       {"I32", DType::kInt32},
       {"I64", DType::kInt64},
       {"BOOL", DType::kBool},
       {"F16", DType::kFloat16},
       {"BF16", DType::kBFloat16},
       {"F32", DType::kFloat32},
       {"F64", DType::kFloat64}}};
  for (const auto& entry : kNames) {
    if (entry.first == name) return entry.second;
  }
  return std::nullopt;
}

/// A tensor, and where its bytes lie after the header.
struct Placed {
  ArrayType type;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

Result<Placed> ReadTensor(const Json& entry) {
  if (!entry.is_object()) return DataLoss("expected an object");
  Placed placed;
  bool has_type = false;
  std::vector<std::uint64_t> offsets;
  for (const JsonMember& item : entry.AsObject()) {
    if (item.first == "dtype") {
      MILLRACE_ASSIGN_OR_RETURN(const std::string_view name, JsonString(item.second, "dtype"));
      const std::optional<DType> dtype = DTypeOfSafetensors(name);
      if (!dtype) return DataLoss(fmt::format("dtype: {} is not supported", Quoted(name)));
      placed.type.dtype = *dtype;
      has_type = true;
    } else if (item.first == "shape") {
      MILLRACE_ASSIGN_OR_RETURN(placed.type.shape,
                                JsonNumbers(item.second, "shape", kMaxArrayExtent));
    } else if (item.first == "data_offsets") {
      MILLRACE_ASSIGN_OR_RETURN(offsets,
                                JsonNumbers(item.second, "data_offsets", std::uint64_t{1} << 62));
    } else {
      return DataLoss(fmt::format("the key {} is unknown", Quoted(item.first)));
    }
  }
  if (!has_type || !entry.contains("shape") || offsets.size() != 2) {
    return DataLoss("expected dtype, shape and two data_offsets");
  }
  placed.begin = offsets[0];
  placed.end = offsets[1];
  // A scalar is no array of a dataset, but other tensors of its file may be.
  const bool scalar = placed.type.shape.empty();
  if (const Status shape = CheckShape(placed.type); !shape.ok() && !scalar) {
    return DataLoss(shape.message());
  }
  const std::uint64_t bytes = *placed.type.Bytes();
  if (placed.end < placed.begin || placed.end - placed.begin != bytes) {
    return DataLoss(fmt::format("{} has {} bytes, but its data_offsets are {} and {}",
                                placed.type.ToString(), bytes, placed.begin, placed.end));
  }
  return placed;
}

Result<std::uint64_t> HeaderLength(std::span<const std::byte> file) {
  if (file.size() < 8) return DataLoss("is cut off within the length of its safetensors header");
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(file[i]);
  if (length > kMaxSafetensorsHeader) {
    return DataLoss(
        fmt::format("says that its safetensors header has {} bytes, expected at most {}", length,
                    kMaxSafetensorsHeader));
  }
  if (length > file.size() - 8) {
    return DataLoss(fmt::format("says that its safetensors header has {} bytes, but only {} follow",
                                length, file.size() - 8));
  }
  return length;
}

}  // namespace

Result<std::map<std::string, StoredArray>> ReadSafetensorsHeader(std::span<const std::byte> file) {
  MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t length, HeaderLength(file));
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
  auto json = ReadJson(text, kMaxHeaderDepth);
  if (!json.ok()) return json.status().WithContext("its safetensors header");
  if (!json->is_object()) return DataLoss("its safetensors header is no object");
  std::map<std::string, StoredArray> arrays;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  for (const JsonMember& item : json->AsObject()) {
    if (item.first == "__metadata__") continue;
    Result<Placed> placed = ReadTensor(item.second);
    if (!placed.ok()) return placed.status().WithContext("tensor " + Quoted(item.first));
    places.emplace_back(placed->begin, placed->end);
    arrays[item.first] = {std::move(placed->type), 8 + length + placed->begin};
  }
  // Neither holes nor overlaps, as the format demands.
  std::sort(places.begin(), places.end());
  std::uint64_t end = 0;
  for (const auto& place : places) {
    if (place.first != end) {
      return DataLoss(fmt::format("its tensors leave a hole or overlap at byte {} of the data",
                                  std::min(place.first, end)));
    }
    end = place.second;
  }
  if (const std::uint64_t expected = 8 + length + end; file.size() != expected) {
    return DataLoss(fmt::format("has {} bytes, expected {}: it {}", file.size(), expected,
                                file.size() < expected ? "is cut off" : "is too long"));
  }
  return arrays;
}

}  // namespace millrace
