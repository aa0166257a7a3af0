#include "server/plugin/plugin_facts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "common/base/json_text.h"
#include "common/tensor/convert.h"
#include "common/tensor/dtype_visit.h"
#include "common/tensor/tensor_word.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxNameBytes = 200;

bool IsPlainWord(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && is_letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9');
  });
}

bool IsTensorName(std::string_view name) {
  if (name.size() > kMaxNameBytes) return false;
  while (true) {
    const std::size_t slash = name.find('/');
    if (!IsPlainWord(name.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

}  // namespace

Result<std::vector<PluginTensor>> ReadSpec(const std::vector<OpenedMessage::Tensor>& spec) {
  std::vector<PluginTensor> tensors;
  std::set<std::string> names;
  for (const OpenedMessage::Tensor& one : spec) {
    if (!IsTensorName(one.name) || !names.insert(one.name).second) {
      return FailedPrecondition(fmt::format(
          "spec(): {} cannot be the name of a tensor: expected words of letters, digits and _, "
          "with / between them, each name once",
          JsonText(PlainText(one.name))));
    }
    const Result<TensorType> type = ParseTensorType(one.type);
    if (!type.ok()) {
      return FailedPrecondition(fmt::format(
          "spec(): {}: {}: {}", one.name, JsonText(PlainText(one.type)), type.status().message()));
    }
    tensors.push_back({one.name, *type});
  }
  return tensors;
}

bool ColumnCheck::Fits(const std::string& column, const PluginTensor& tensor) {
  const std::string name = DottedName(tensor.name);  // as in expressions
  if (tensor.type.ragged) return column == name + ".length";
  return tensor.type.inner.empty() && column == name;
}

std::string ColumnCheck::Contradiction(std::uint64_t example, const RowPlace& place,
                                       std::span<const std::byte> memory) const {
  const auto differs = [&](const auto& built, const auto& said) {
    return fmt::format("the example has {} {}, and columns() says {}", name_, built, said);
  };
  if (type_.ragged) {
    const double said = values_->is_float ? values_->floats[example] : 0;
    if (values_->is_float) {
      return static_cast<double>(place.extent) == said ? "" : differs(place.extent, said);
    }
    const std::int64_t length = values_->integers[example];
    const bool same = length >= 0 && static_cast<std::uint64_t>(length) == place.extent;
    return same ? "" : differs(place.extent, length);
  }
  return VisitValues(type_.dtype, [&](auto value) -> std::string {
    using Value = decltype(value);
    std::memcpy(&value, memory.data() + place.offset, sizeof value);
    if constexpr (std::is_integral_v<Value> || std::is_same_v<Value, Bool8>) {
      if (!values_->is_float) {
        const auto built = ConvertValue<std::int64_t>(value);
        bool same = built == values_->integers[example];
        if constexpr (std::is_same_v<Value, std::uint64_t>) same = same && built >= 0;
        return same ? "" : differs(built, values_->integers[example]);
      }
    }
    const auto built = ConvertValue<double>(value);
    const double said = values_->is_float ? values_->floats[example]
                                          : static_cast<double>(values_->integers[example]);
    const bool same = built == said || (std::isnan(built) && std::isnan(said));
    return same ? "" : differs(built, said);
  });
}

}  // namespace millrace
