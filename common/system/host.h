// The machine, and how much of it this process may use.
//
// Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace millrace {

struct HostLimits {
  int cpus = 1;                    // the smaller of the affinity mask and the cgroup's quota
  std::uint64_t memory_bytes = 0;  // the smaller limit of the machine and the cgroup (v1 or v2)
  std::string cpus_from;           // "affinity" or "cgroup"
  std::string memory_from;         // "machine" or "cgroup"
};
/// Reads the limits. The limits of a cgroup include its own folder and all folders above it. `root`
/// is put before every path that is read; tests use it.
HostLimits ReadHostLimits(const std::string& root = "");

struct AvailableMemory {
  std::uint64_t bytes = 0;
  std::string from;  // "machine" or "cgroup"
};
/// How much more memory this process can get now without swapping: the least that the machine and
/// its cgroups have left. The page cache counts as free. `root` as above.
AvailableMemory ReadAvailableMemory(const std::string& root = "");

/// Equal for all processes of one host, boot and network namespace; different otherwise.
std::string NetworkHostId();

std::string HostName();

/// "host:pid", for messages.
std::string Whereabouts();

}  // namespace millrace
