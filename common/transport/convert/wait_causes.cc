#include "common/transport/convert/wait_causes.h"

#include <cstddef>

namespace millrace {
namespace {

/// The protocol's value for a cause. The switch has no default, so that a cause without a
/// counterpart in the protocol does not compile.
constexpr v1::WaitCause Twin(WaitCause cause) {
  switch (cause) {
    case WaitCause::kNone:
      return v1::WAIT_CAUSE_UNSPECIFIED;
    case WaitCause::kAttach:
      return v1::WAIT_ATTACH;
    case WaitCause::kLease:
      return v1::WAIT_LEASE;
    case WaitCause::kConnect:
      return v1::WAIT_CONNECT;
    case WaitCause::kBuild:
      return v1::WAIT_BUILD;
    case WaitCause::kQueue:
      return v1::WAIT_QUEUE;
    case WaitCause::kTransfer:
      return v1::WAIT_TRANSFER;
    case WaitCause::kExpand:
      return v1::WAIT_EXPAND;
    case WaitCause::kSlot:
      return v1::WAIT_SLOT;
    case WaitCause::kPython:
      return v1::WAIT_PYTHON;
  }
  return v1::WAIT_CAUSE_UNSPECIFIED;
}

constexpr bool CauseNumbersAgree() {
  for (std::size_t i = 0; i < kWaitCauses; ++i) {
    if (Twin(static_cast<WaitCause>(i)) != static_cast<v1::WaitCause>(i)) return false;
  }
  return true;
}
static_assert(v1::WaitCause_ARRAYSIZE == kWaitCauses, "common.proto and WaitCause differ");
static_assert(CauseNumbersAgree(), "a WaitCause has another number in common.proto");

}  // namespace

WaitCause FromProto(v1::WaitCause cause) {
  return v1::WaitCause_IsValid(cause) ? static_cast<WaitCause>(cause) : WaitCause::kNone;
}

v1::WaitCause ToProto(WaitCause cause) { return Twin(cause); }

}  // namespace millrace
