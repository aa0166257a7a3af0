#include "common/batch/layout/drop_reasons.h"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

constexpr std::size_t kMaxNameBytes = 64;

}  // namespace

bool IsDropReasonName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

DropReasonNames::DropReasonNames(std::vector<std::string> names) {
  names.resize(std::min(names.size(), kDropReasons - 1));
  names_ = std::make_shared<const std::vector<std::string>>(std::move(names));
}

std::string_view DropReasonNames::Find(std::uint64_t number) const {
  if (names_ != nullptr && number >= 1 && number <= names_->size()) {
    const std::string& name = (*names_)[number - 1];
    if (IsDropReasonName(name)) return name;
  }
  for (const DropReason reason : kNamedDropReasons) {
    if (static_cast<std::uint64_t>(reason) == number) return DropReasonName(reason);
  }
  return {};
}

std::string DropReasonNames::NameOf(std::uint64_t number) const {
  const std::string_view name = Find(number);
  return name.empty() ? "reason " + std::to_string(number) : std::string(name);
}

std::string DropReasonNames::NameOf(DropReason reason) const {
  return NameOf(static_cast<std::uint64_t>(reason));
}

}  // namespace millrace
