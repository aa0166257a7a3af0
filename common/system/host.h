// What the machine is and how much of it this process may use.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace millrace {

struct HostLimits {
  int cpus = 1;                    // of the affinity mask and the cgroup's quota, the smaller
  std::uint64_t memory_bytes = 0;  // of the machine and the cgroup (v1 or v2), the smaller
  std::string cpus_from;           // "affinity" or "cgroup"
  std::string memory_from;         // "machine" or "cgroup"
};
/// A cgroup's limits are those of its own folder and of all above it. `root` is put before every
/// path that is read: for tests.
HostLimits ReadHostLimits(const std::string& root = "");

/// Equal for all processes of one boot of one host and network namespace, different otherwise.
std::string NetworkHostId();

std::string HostName();

/// "host:pid", for messages.
std::string Whereabouts();

}  // namespace millrace
