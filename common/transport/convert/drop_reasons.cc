#include "common/transport/convert/drop_reasons.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {
namespace {

/// The protocol's value for a reason. The switch has no default, so that a reason without a
/// counterpart in the protocol does not compile.
constexpr v1::DropReason Twin(DropReason reason) {
  switch (reason) {
    case DropReason::kTooLarge:
      return v1::TOO_LARGE;
    case DropReason::kExcluded:
      return v1::EXCLUDED;
  }
  return v1::DROP_REASON_UNSPECIFIED;
}

constexpr bool ReasonNumbersAgree() {
  for (const DropReason reason : kNamedDropReasons) {
    if (Twin(reason) != static_cast<v1::DropReason>(reason)) return false;
  }
  return true;
}
static_assert(ReasonNumbersAgree(), "a DropReason has another number in common.proto");
static_assert(v1::DropReason_ARRAYSIZE <= kDropReasons, "readers take no number so high");

template <class Count>
std::string NameOfCount(const Count& count, const DropReasonNames& names) {
  if (IsDropReasonName(count.name())) return count.name();
  return names.NameOf(static_cast<std::uint64_t>(count.reason()));
}

}  // namespace

v1::DropReason ToProto(DropReason reason) { return static_cast<v1::DropReason>(reason); }

DropReasonNames DropReasonsOf(const v1::Spec& spec) {
  return DropReasonNames({spec.drop_reasons().begin(), spec.drop_reasons().end()});
}

void AddDropReasons(const DropReasonNames& names, v1::Spec& spec) {
  for (std::size_t number = 1; number < kDropReasons; ++number) {
    const std::string_view name = names.Find(number);
    if (name.empty()) continue;
    while (static_cast<std::size_t>(spec.drop_reasons_size()) < number) spec.add_drop_reasons();
    spec.set_drop_reasons(static_cast<int>(number - 1), std::string(name));
  }
}

std::string NameOf(const v1::DroppedCount& count, const DropReasonNames& names) {
  return NameOfCount(count, names);
}

std::string NameOf(const v1::LostPieces& count, const DropReasonNames& names) {
  return NameOfCount(count, names);
}

}  // namespace millrace
