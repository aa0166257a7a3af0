#include "server/plan/text/mix_text.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/json_text.h"
#include "common/base/suggestion.h"
#include "common/parameters/make_parameter.h"
#include "server/yaml/read_parameter.h"

namespace millrace {
namespace {

constexpr std::string_view kEpochForms =
    "how many examples an epoch has: a number, {of: BRANCH} for all of one branch, or shortest";

const std::vector<std::string>& MixKeys() {
  static const std::vector<std::string> keys = {"weights", "seed", "epoch"};
  return keys;
}

/// A whole number of a key from `least` to `most`.
Result<std::uint64_t> ReadNumber(const std::string& key, std::int64_t least, std::int64_t most,
                                 const WrittenValue& written) {
  const ReadValue read = ReadParameter(IntParameter(key, "", least, most), *written.value);
  if (!read.error) return static_cast<std::uint64_t>(std::get<std::int64_t>(read.value));
  return written.layer.Error(read.error->mark, fmt::format("{}: {}", key, read.error->message));
}

bool IsNullWord(const YamlNode& node) {
  return node.kind == YamlNode::Kind::kNull && !node.scalar.empty();
}

}  // namespace

bool MixText::Owns(std::string_view key) {
  const std::string_view first = key.substr(0, key.find('.'));
  return first == "mix" || first == "tables";
}

Status MixText::Apply(TextLayer& layer, const YamlEntry& entry) {
  const auto [key, rest] = SplitKey(entry.key);
  if (key == "mix") return rest.empty() ? ApplyMix(layer, entry) : ApplyKey(layer, rest, entry);
  if (!rest.empty()) {
    return layer.Error(entry.mark, fmt::format("unknown key '{}'; tables has no keys", entry.key));
  }
  MILLRACE_RETURN_IF_ERROR(layer.Claim("tables", entry.mark));
  tables_.reset();
  if (IsNullWord(*entry.value)) return OkStatus();
  if (entry.value->kind != YamlNode::Kind::kScalar || entry.value->scalar != "joint") {
    return layer.Error(entry.value->mark,
                       fmt::format("tables: expected joint, or null for tables that have to be "
                                   "equal; got {}",
                                   entry.value->Describe()));
  }
  tables_ = WrittenValue{layer, entry.mark, entry.value};
  return OkStatus();
}

Status MixText::ApplyMix(TextLayer& layer, const YamlEntry& entry) {
  if (IsNullWord(*entry.value)) {
    MILLRACE_RETURN_IF_ERROR(layer.Claim("mix", entry.mark));
    weights_.clear();
    seed_.reset();
    epoch_.reset();
    return OkStatus();
  }
  if (entry.value->kind != YamlNode::Kind::kMap) {
    return layer.Error(entry.value->mark,
                       fmt::format("mix: expected a map with the keys {}, got {}",
                                   fmt::join(MixKeys(), ", "), entry.value->Describe()));
  }
  for (const YamlEntry& key : entry.value->entries) {
    MILLRACE_RETURN_IF_ERROR(ApplyKey(layer, key.key, key));
  }
  return OkStatus();
}

Status MixText::ApplyKey(TextLayer& layer, const std::string& path, const YamlEntry& entry) {
  const auto [key, rest] = SplitKey(path);
  if (key == "weights" && !rest.empty()) return ApplyWeight(layer, rest, entry);
  if (key == "weights") {
    if (IsNullWord(*entry.value)) {
      MILLRACE_RETURN_IF_ERROR(layer.Claim("mix.weights", entry.mark));
      weights_.clear();
      return OkStatus();
    }
    if (entry.value->kind != YamlNode::Kind::kMap) {
      return layer.Error(
          entry.value->mark,
          fmt::format("mix.weights: expected a map from branches to numbers such as {{a: 7, b: "
                      "3}}, got {}",
                      entry.value->Describe()));
    }
    for (const YamlEntry& weight : entry.value->entries) {
      MILLRACE_RETURN_IF_ERROR(ApplyWeight(layer, weight.key, weight));
    }
    return OkStatus();
  }
  if ((key != "seed" && key != "epoch") || !rest.empty()) {
    return layer.Error(entry.mark,
                       fmt::format("unknown key 'mix.{}'{}; expected one of {}", path,
                                   Suggestion(key, MixKeys()), fmt::join(MixKeys(), ", ")));
  }
  MILLRACE_RETURN_IF_ERROR(layer.Claim("mix." + key, entry.mark));
  std::optional<WrittenValue>& written = key == "seed" ? seed_ : epoch_;
  written.reset();
  if (!IsNullWord(*entry.value)) written = WrittenValue{layer, entry.mark, entry.value};
  return OkStatus();
}

Status MixText::ApplyWeight(TextLayer& layer, const std::string& branch, const YamlEntry& entry) {
  MILLRACE_RETURN_IF_ERROR(layer.Claim("mix.weights." + branch, entry.mark));
  weights_.erase(branch);
  if (IsNullWord(*entry.value)) return OkStatus();
  weights_.emplace(branch, WrittenValue{layer, entry.mark, entry.value});
  return OkStatus();
}

Status MixText::CheckAbsent() const {
  const auto refuse = [](const WrittenValue& written, const char* key) {
    return written.layer.Error(
        written.key, fmt::format("{}: it means something only beside branches, and the pipeline "
                                 "has none",
                                 key));
  };
  if (!weights_.empty()) return refuse(weights_.begin()->second, "mix");
  if (seed_) return refuse(*seed_, "mix");
  if (epoch_) return refuse(*epoch_, "mix");
  if (tables_) return refuse(*tables_, "tables");
  return OkStatus();
}

Result<MixPart> MixText::Finish(const std::vector<std::string>& branches,
                                const std::string& origin) const {
  MixPart part;
  for (const std::string& branch : branches) {
    const auto written = weights_.find(branch);
    if (written == weights_.end()) {
      return InvalidArgument(
          fmt::format("{}: the key mix.weights.{} is missing; expected an integer from 1 to {}",
                      origin, branch, kMaxBranchWeight));
    }
    MILLRACE_ASSIGN_OR_RETURN(
        const std::uint64_t weight,
        ReadNumber("mix.weights." + branch, 1, static_cast<std::int64_t>(kMaxBranchWeight),
                   written->second));
    part.weights.push_back(weight);
  }
  for (const auto& [name, written] : weights_) {
    if (std::find(branches.begin(), branches.end(), name) != branches.end()) continue;
    return written.layer.Error(
        written.key, fmt::format("mix.weights: there is no branch '{}'{}; expected {}", name,
                                 Suggestion(name, branches), fmt::join(branches, ", ")));
  }
  if (seed_) {
    MILLRACE_ASSIGN_OR_RETURN(
        part.seed, ReadNumber("mix.seed", 0, std::numeric_limits<std::int64_t>::max(), *seed_));
  }
  if (!epoch_) {
    return InvalidArgument(
        fmt::format("{}: the key mix.epoch is missing; expected {}", origin, kEpochForms));
  }
  MILLRACE_RETURN_IF_ERROR(FinishEpoch(branches, part));
  part.joint_tables = tables_.has_value();
  return part;
}

Status MixText::FinishEpoch(const std::vector<std::string>& branches, MixPart& part) const {
  const YamlNode& node = *epoch_->value;
  if (node.kind == YamlNode::Kind::kScalar && !node.quoted && node.scalar == "shortest") {
    part.shortest = true;
    return OkStatus();
  }
  if (node.kind == YamlNode::Kind::kMap && node.entries.size() == 1 &&
      node.entries.front().key == "of" &&
      node.entries.front().value->kind == YamlNode::Kind::kScalar) {
    const std::string& name = node.entries.front().value->scalar;
    const auto found = std::find(branches.begin(), branches.end(), name);
    if (found == branches.end()) {
      return epoch_->layer.Error(
          node.entries.front().value->mark,
          fmt::format("mix.epoch.of: there is no branch '{}'{}; expected one of {}", name,
                      Suggestion(name, branches), fmt::join(branches, ", ")));
    }
    part.all_of = static_cast<std::size_t>(found - branches.begin());
    return OkStatus();
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const Result<std::uint64_t> rows = ReadNumber("mix.epoch", 1, kMost, *epoch_);
  if (!rows.ok()) {
    return epoch_->Error(
        fmt::format("mix.epoch: expected {}, got {}", kEpochForms, node.Describe()));
  }
  part.rows = *rows;
  return OkStatus();
}

std::vector<std::string> CanonicalLines(const MixPart& mix,
                                        const std::vector<std::string>& branches) {
  std::uint64_t divisor = 0;
  for (const std::uint64_t weight : mix.weights) divisor = std::gcd(divisor, weight);
  std::string weights;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    weights += fmt::format("{}{}: {}", i == 0 ? "" : ", ", branches[i], mix.weights[i] / divisor);
  }
  const std::string epoch = mix.rows     ? fmt::format("{}", *mix.rows)
                            : mix.all_of ? fmt::format("{{of: {}}}", branches[*mix.all_of])
                                         : "shortest";
  std::vector<std::string> lines = {"branches=" + JsonList(branches), "mix.epoch=" + epoch,
                                    fmt::format("mix.weights={{{}}}", weights)};
  if (mix.seed != 0) lines.push_back(fmt::format("mix.seed={}", mix.seed));
  if (mix.joint_tables) lines.emplace_back("tables=joint");
  return lines;
}

}  // namespace millrace
