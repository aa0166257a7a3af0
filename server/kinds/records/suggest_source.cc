#include "server/kinds/records/suggest_source.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/json_text.h"
#include "common/base/utf8.h"
#include "server/files/dataset_files.h"
#include "server/kinds/records/format/example_parser.h"
#include "server/source/declared_tensors.h"

namespace millrace {
namespace {

constexpr std::uint64_t kSampled = 256;

struct Range {
  std::uint64_t least = UINT64_MAX;
  std::uint64_t most = 0;

  void Add(std::uint64_t value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool is_one() const { return least == most; }
  std::string ToString() const {
    return is_one() ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
  }
};

/// A feature as it was in some records.
struct Sampled {
  std::set<FeatureKind> kinds;
  std::uint64_t records = 0;
  Range values;  // in a record that has it
  Range bytes;   // of a text
  bool is_text = true;

  void Add(const FeatureValues& feature) {
    if (feature.kind() == FeatureKind::kAbsent) return;
    kinds.insert(feature.kind());
    ++records;
    values.Add(feature.count());
    for (const std::span<const std::byte> text : feature.bytes()) {
      bytes.Add(text.size());
      const std::string_view chars(reinterpret_cast<const char*>(text.data()), text.size());
      is_text = is_text && IsUtf8(chars) && chars.find('\0') == std::string_view::npos;
    }
  }

  /// Empty if no type fits. `lacking`: some records do not have it.
  std::string Type(bool lacking) const {
    if (kinds.size() != 1) return {};
    if (*kinds.begin() == FeatureKind::kBytes) {
      if (values.least != 1 || values.most != 1) return "str[*]";
      if (is_text) return "str";
      const bool fixed = bytes.is_one() && bytes.least > 0 && !lacking;
      return fixed ? fmt::format("bytes[{}]", bytes.least) : "bytes[*]";
    }
    const std::string_view number = *kinds.begin() == FeatureKind::kFloat ? "float32" : "int64";
    if (!values.is_one() || values.least == 0) return fmt::format("{}[*]", number);
    return values.least == 1 ? std::string(number) : fmt::format("{}[{}]", number, values.least);
  }
};

/// A name for the tensor of a feature: the end of the feature's name, as far as it is a word.
std::string TensorName(std::string_view feature, std::set<std::string>& taken) {
  std::string name(feature.substr(feature.rfind('/') + 1));
  for (char& c : name) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!word) c = '_';
  }
  if (!CheckDeclaredName(name).ok()) name = "feature_" + name;
  if (!CheckDeclaredName(name).ok()) name = "feature";
  std::string free = name;
  for (int n = 2; !taken.insert(free).second; ++n) free = fmt::format("{}_{}", name, n);
  return free;
}

std::string Quoted(const std::string& type) {
  return type.find('[') == std::string::npos ? type : JsonText(type);
}

}  // namespace

std::string SuggestSource(const RecordsDataset& dataset) {
  std::vector<std::string> names;
  for (const FeatureCounts& feature : dataset.index().features()) names.push_back(feature.name);
  ExampleParser parser(names);
  std::vector<Sampled> sampled(names.size());
  const std::uint64_t all = dataset.examples();
  const std::uint64_t count = std::min(all, kSampled);
  std::uint64_t read = 0;
  std::uint64_t sequences = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const ExampleId id(count == 1 ? 0 : i * (all - 1) / (count - 1));
    std::vector<PlacedRecord> found;
    if (!dataset.Find({&id, 1}, found).ok()) continue;
    const auto data = dataset.Read(found.front());
    if (!data.ok() || !parser.Parse(*data)) continue;
    if (parser.is_sequence()) {
      ++sequences;
      continue;
    }
    ++read;
    for (std::size_t f = 0; f < names.size(); ++f) sampled[f].Add(parser.feature(f));
  }
  std::string text;
  if (sequences > 0) {
    text += fmt::format(
        "{} of {} records looked at are tf.train.SequenceExample, which is not supported; write "
        "each as a tf.train.Example\n",
        sequences, count);
  }
  if (read == 0) return text;
  text += fmt::format("values a record, in {} of {}\n", read, all);
  std::vector<std::string> tensors;
  std::set<std::string> taken;
  for (std::size_t f = 0; f < names.size(); ++f) {
    const Sampled& feature = sampled[f];
    const bool lacking = feature.records < read;
    const std::string type = feature.Type(lacking);
    std::string bytes;
    if (feature.kinds.contains(FeatureKind::kBytes) && feature.bytes.most > 0) {
      bytes = fmt::format(", {} bytes", feature.bytes.ToString());
    }
    text += fmt::format("  {:<28} {}{}{}\n", Escaped(names[f]),
                        feature.records == 0 ? "none" : feature.values.ToString(), bytes,
                        type.empty() ? "; no type of a source fits" : "");
    if (type.empty()) continue;
    const std::string name = TensorName(names[f], taken);
    // An absent ragged feature is empty; others need a default.
    const bool needs_default = lacking && type != "str" && !type.ends_with("[*]");
    tensors.push_back(name == names[f] && !needs_default
                          ? fmt::format("{}: {}", name, Quoted(type))
                          : fmt::format("{}: {{feature: {}, type: {}{}}}", name, JsonText(names[f]),
                                        Quoted(type), needs_default ? ", default: 0" : ""));
  }
  if (tensors.empty()) return text;
  return text + fmt::format("source: {{records: {{{}}}}}\n", fmt::join(tensors, ", "));
}

}  // namespace millrace
