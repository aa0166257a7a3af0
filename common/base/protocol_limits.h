// Limits of the protocol that more than one role checks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

inline constexpr std::size_t kMaxNameBytes =
    128;  // for names of jobs, datasets, fingerprints and workers
inline constexpr std::uint32_t kMaxWorldSize = 1u << 20;  // ranks of a job
inline constexpr std::uint32_t kMaxPriority =
    1000;  // of a job; the lowest is 1, and 0 stands for 1
inline constexpr std::uint32_t kMaxListMembers = 1024;  // workers that one consumer may ask
inline constexpr std::uint64_t kMaxStaticBytes = std::uint64_t{4}
                                                 << 30;  // static tables of one plan; a column

inline constexpr std::uint64_t kMeasuredRange =
    256;  // examples that a worker measures at once; ranges begin at multiples of it

/// How a process tunes itself: settings, decisions, and bytes of one of its texts.
inline constexpr int kMaxTuneSettings = 64;
inline constexpr int kMaxTuneDecisions = 64;
inline constexpr std::size_t kMaxTuneText = 256;

/// The events of a status, and bytes of the text and of the peer of one.
inline constexpr std::size_t kMaxEvents = 64;
inline constexpr std::size_t kMaxEventText = 512;
inline constexpr std::size_t kMaxEventPeer = 256;

}  // namespace millrace
