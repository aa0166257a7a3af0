#include "server/kinds/records/record_features.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/json/json.h"
#include "server/files/dataset_files.h"

namespace millrace {
namespace {

constexpr std::string_view kLongForm = "{feature: \"…\", type: \"…\", default: …}";
/// The type of lists of texts.
constexpr std::string_view kTexts = "str[*]";

std::string KindWord(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kBytes:
      return "bytes";
    case FeatureKind::kFloat:
      return "float32";
    case FeatureKind::kInt64:
      return "int64";
    case FeatureKind::kAbsent:
      break;
  }
  return "nothing";
}

/// Reads a type into the feature.
Status ReadType(const Json& value, RecordFeature& feature) {
  if (!value.is_string()) {
    return InvalidArgument(
        fmt::format("expected a type such as int64, \"float32[*, 80]\" or \"bytes[194]\", got {}",
                    value.ToText()));
  }
  const std::string text = value.AsString();
  std::string dense = text;
  std::erase(dense, ' ');
  feature.texts = dense == kTexts;
  if (dense.starts_with("str[") && !feature.texts) {
    return InvalidArgument(fmt::format(
        "the type \"{}\": expected str, which is one text, or \"{}\", any number of texts; a fixed "
        "number of texts is no type: read them as \"{}\"",
        text, kTexts, kTexts));
  }
  Result<TensorType> type = ParseTensorType(feature.texts ? "str" : text);
  if (!type.ok()) return type.status().WithContext(fmt::format("the type \"{}\"", text));
  feature.type = *std::move(type);
  return OkStatus();
}

Result<FeatureKind> KindOf(const TensorType& type) {
  switch (type.dtype) {
    case DType::kUint8:
      return FeatureKind::kBytes;
    case DType::kInt64:
      return FeatureKind::kInt64;
    case DType::kFloat32:
      return FeatureKind::kFloat;
    default:
      return InvalidArgument(
          fmt::format("records hold bytes, int64 and float32, got {}; `cast` makes other types",
                      TensorTypeText(type)));
  }
}

/// Appends one value of a default. False if it is not of the type.
bool AppendDefault(const Json& value, FeatureKind kind, std::vector<std::byte>& row) {
  const auto append = [&row](auto number) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&number);
    row.insert(row.end(), bytes, bytes + sizeof(number));
  };
  if (kind == FeatureKind::kInt64 && value.is_integer()) {
    append(value.AsInteger());
    // A number that was read as unsigned may be beyond int64.
    return !value.is_unsigned() || value.AsUnsigned() <= std::numeric_limits<std::int64_t>::max();
  }
  if (kind == FeatureKind::kFloat && value.is_number()) {
    const auto number = value.AsDouble();
    append(static_cast<float>(number));
    return std::abs(number) <= std::numeric_limits<float>::max();
  }
  return false;
}

/// Appends a text of a default. False if it is none.
bool AppendText(const Json& value, std::vector<std::byte>& row,
                std::vector<std::uint32_t>& lengths) {
  if (!value.is_string()) return false;
  const std::string text = value.AsString();
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  row.insert(row.end(), bytes, bytes + text.size());
  lengths.push_back(static_cast<std::uint32_t>(text.size()));
  return true;
}

/// Reads the default of a feature, whose type is known.
Status ReadDefault(const Json& value, RecordFeature& feature) {
  const std::uint64_t unit = feature.type.UnitElements();
  std::vector<std::byte> row;
  std::vector<std::uint32_t> lengths;
  std::uint64_t values = 0;
  bool fits = true;
  if (feature.texts && value.is_array()) {
    for (const Json& one : value.AsArray()) fits = fits && AppendText(one, row, lengths);
    values = row.size();
  } else if (feature.kind == FeatureKind::kBytes) {
    fits = AppendText(value, row, lengths);
    values = row.size();
  } else if (value.is_array()) {
    for (const Json& one : value.AsArray()) fits = fits && AppendDefault(one, feature.kind, row);
    values = value.AsArray().size();
  } else {
    fits = AppendDefault(value, feature.kind, row);
    values = feature.type.ragged ? 1 : unit;
  }
  fits = fits && (feature.type.ragged ? values % unit == 0 : values == unit);
  if (!fits) {
    return InvalidArgument(
        fmt::format("the default {} does not fit the type {}", value.ToText(), feature.TypeText()));
  }
  feature.fallback = std::move(row);
  if (feature.texts) feature.fallback_lengths = std::move(lengths);
  return OkStatus();
}

/// An error about `.name`, or about what stands below it.
Status AtPath(const std::string& path, const Status& status) {
  return status.WithContext("." + path);
}

Result<RecordFeature> ReadFeature(const std::string& name, const Json& value) {
  RecordFeature feature;
  feature.tensor = name;
  feature.feature = name;
  const Json* type = &value;
  const Json* fallback = nullptr;
  if (value.is_object()) {
    type = nullptr;
    for (const auto& [key, below] : value.AsObject()) {
      if (key == "type") {
        type = &below;
      } else if (key == "default") {
        fallback = &below;
      } else if (key == "feature" && below.is_string() && !below.AsString().empty()) {
        feature.feature = below.AsString();
      } else if (key == "feature") {
        return AtPath(
            name + ".feature",
            InvalidArgument(fmt::format("expected the name of a feature, got {}", below.ToText())));
      } else {
        return AtPath(name + "." + key,
                      InvalidArgument(fmt::format("unknown key; expected {}", kLongForm)));
      }
    }
    if (type == nullptr) {
      return AtPath(
          name, InvalidArgument(fmt::format("the key type is missing; expected {}", kLongForm)));
    }
  }
  const std::string type_path = value.is_object() ? name + ".type" : name;
  if (Status read = ReadType(*type, feature); !read.ok()) return AtPath(type_path, read);
  const Result<FeatureKind> kind = KindOf(feature.type);
  if (!kind.ok()) return AtPath(type_path, kind.status());
  feature.kind = *kind;
  if (feature.type.ragged) feature.fallback.emplace();
  if (fallback != nullptr) {
    const Status read = ReadDefault(*fallback, feature);
    if (!read.ok()) return AtPath(name + ".default", read);
  }
  return feature;
}

/// "d (bytes), s (int64) and 3 more".
std::string DescribeFeatures(const RecordsIndex& index) {
  constexpr std::size_t kShown = 32;
  std::string text;
  const std::vector<FeatureCounts>& all = index.features();
  for (std::size_t i = 0; i < std::min(all.size(), kShown); ++i) {
    std::string kinds;
    const auto add = [&kinds](std::uint64_t count, FeatureKind kind) {
      if (count > 0) kinds += (kinds.empty() ? "" : " or ") + KindWord(kind);
    };
    add(all[i].bytes, FeatureKind::kBytes);
    add(all[i].floats, FeatureKind::kFloat);
    add(all[i].integers, FeatureKind::kInt64);
    text += fmt::format("{}{} ({})", i > 0 ? ", " : "", Escaped(all[i].name), kinds);
  }
  if (all.size() > kShown) text += fmt::format(" and {} more", all.size() - kShown);
  return text.empty() ? "none" : text;
}

}  // namespace

std::string RecordFeature::TypeText() const {
  return texts ? std::string(kTexts) : TensorTypeText(type);
}

Result<std::vector<RecordFeature>> ReadRecordFeatures(const ParamValue& value) {
  MILLRACE_ASSIGN_OR_RETURN(const Json tree, Json::Parse(std::get<ParamTree>(value).json));
  if (!tree.is_object() || tree.AsObject().empty()) {
    return InvalidArgument(
        "expected a map from names to types, such as {d: \"bytes[194]\", s: int64}");
  }
  std::vector<RecordFeature> features;
  for (const auto& [name, below] : tree.AsObject()) {
    const Status named = CheckDeclaredName(name);
    if (!named.ok()) return AtPath(name, named);
    MILLRACE_ASSIGN_OR_RETURN(features.emplace_back(), ReadFeature(name, below));
  }
  std::vector<DeclaredTensor> declared;
  for (const RecordFeature& feature : features) declared.push_back(feature.Declared());
  const auto tensors = DeclareTensors(declared, 1);
  if (!tensors.ok()) {
    return InvalidArgument("." + tensors.status().message());
  }
  return features;
}

Status CheckFeaturesOccur(std::span<const RecordFeature> features, const RecordsIndex& index) {
  if (index.records() == 0) return OkStatus();
  for (const RecordFeature& feature : features) {
    const auto& all = index.features();
    const auto found = std::find_if(all.begin(), all.end(), [&](const FeatureCounts& counts) {
      return counts.name == feature.feature;
    });
    if (found == all.end()) {
      return InvalidArgument(fmt::format(
          "source.records.{}: no record of the dataset has a feature '{}'; those that occur: {}",
          feature.tensor, Escaped(feature.feature), DescribeFeatures(index)));
    }
    const std::uint64_t fitting = feature.kind == FeatureKind::kBytes   ? found->bytes
                                  : feature.kind == FeatureKind::kFloat ? found->floats
                                                                        : found->integers;
    if (fitting > 0) continue;
    const FeatureKind holds = found->bytes > 0    ? FeatureKind::kBytes
                              : found->floats > 0 ? FeatureKind::kFloat
                                                  : FeatureKind::kInt64;
    return InvalidArgument(fmt::format(
        "source.records.{}: the feature '{}' holds {} in every record that has it, its type here "
        "is {}",
        feature.tensor, Escaped(feature.feature), KindWord(holds), feature.TypeText()));
  }
  return OkStatus();
}

}  // namespace millrace
