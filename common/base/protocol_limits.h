// Limits of the protocol that more than one role checks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

inline constexpr std::size_t kMaxNameBytes = 128;      // of a job, dataset, fingerprint or worker
inline constexpr std::uint32_t kMaxPriority = 1000;    // of a job; the lowest is 1, and 0 says 1
inline constexpr std::uint32_t kMaxHeldLeases = 8192;  // of a session, named in its report
inline constexpr std::uint64_t kMaxStaticBytes = std::uint64_t{4} << 30;  // tables of a plan
inline constexpr std::uint32_t kMaxLeasesAtOnce = 256;  // for a session, from one decision

}  // namespace millrace
