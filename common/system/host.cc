#include "common/system/host.h"

#include <sched.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

#include "common/base/parse_number.h"

namespace millrace {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The folder of this process in the hierarchy of `controller` ("" for cgroup v2).
std::string CgroupFolder(const std::string& root, const std::string& controller) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : names.find(controller) != std::string::npos) {
      std::string folder = line.substr(second + 1);
      return folder.starts_with('/') ? folder : "/";
    }
  }
  return "/";
}

/// The folder of this process in the hierarchy mounted at `mount`, and all folders above it. Inside
/// a container the folder may be named as on the host. Then only the last entry, the mount itself,
/// exists.
std::vector<std::string> CgroupFolders(const std::string& root, const std::string& mount,
                                       const std::string& controller) {
  std::string folder = CgroupFolder(root, controller);
  std::vector<std::string> folders;
  for (; !folder.empty() && folder != "/"; folder.resize(folder.rfind('/'))) {
    folders.push_back(root + mount + folder);
  }
  folders.push_back(root + mount);
  return folders;
}

/// The smallest number in the files `file` of all `folders`; 0 if there is none.
std::uint64_t SmallestLimit(const std::vector<std::string>& folders, const std::string& file) {
  std::uint64_t smallest = 0;
  for (const std::string& folder : folders) {
    const auto limit = ParseNumber<std::uint64_t>(FirstLine(folder + "/" + file), {.min = 1});
    if (limit.ok() && (smallest == 0 || *limit < smallest)) smallest = *limit;
  }
  return smallest;
}

/// The CPUs that the quotas of the cgroup allow, rounded up; 0: no quota.
int QuotaCpus(const std::string& root) {
  double smallest = 0;
  const auto allow = [&](std::istringstream quota_and_period) {
    std::string words[2];
    quota_and_period >> words[0] >> words[1];
    const auto quota = ParseNumber<std::uint64_t>(words[0], {.min = 1});  // "max" or -1: no quota
    const auto period = ParseNumber<std::uint64_t>(words[1], {.min = 1});
    if (!quota.ok() || !period.ok()) return;
    const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
    if (smallest == 0 || cpus < smallest) smallest = cpus;
  };
  for (const std::string& folder : CgroupFolders(root, "/sys/fs/cgroup", "")) {
    allow(std::istringstream(FirstLine(folder + "/cpu.max")));
  }
  for (const std::string& folder : CgroupFolders(root, "/sys/fs/cgroup/cpu", "cpu")) {
    allow(std::istringstream(FirstLine(folder + "/cpu.cfs_quota_us") + " " +
                             FirstLine(folder + "/cpu.cfs_period_us")));
  }
  return static_cast<int>(std::ceil(smallest));
}

/// The number that a file has after `name`, as in "active_file 4096" or "MemAvailable: 12 kB"; 0 if
/// it has none.
std::uint64_t NumberAfter(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    std::string text;
    if (!(words >> key >> text) || key != name) continue;
    const auto number = ParseNumber<std::uint64_t>(text);
    return number.ok() ? *number : 0;
  }
  return 0;
}

/// The files of one version of cgroups that tell memory. `prefix`: of names in memory.stat.
struct MemoryFiles {
  std::string mount;
  std::string controller;
  std::string limit;
  std::string use;
  std::string prefix;
};

void TakeSmallest(const std::string& root, const MemoryFiles& files, AvailableMemory& smallest) {
  for (const std::string& folder : CgroupFolders(root, files.mount, files.controller)) {
    const auto limit =
        ParseNumber<std::uint64_t>(FirstLine(folder + "/" + files.limit), {.min = 1});
    const auto use = ParseNumber<std::uint64_t>(FirstLine(folder + "/" + files.use));
    if (!limit.ok() || !use.ok()) continue;
    const std::string stat = folder + "/memory.stat";
    const std::uint64_t cache = NumberAfter(stat, files.prefix + "active_file") +
                                NumberAfter(stat, files.prefix + "inactive_file");
    const std::uint64_t kept = *use - std::min(*use, cache);
    const std::uint64_t left = *limit - std::min(*limit, kept);
    if (left < smallest.bytes) smallest = {left, "cgroup"};
  }
}

}  // namespace

HostLimits ReadHostLimits(const std::string& root) {
  HostLimits limits;
  cpu_set_t set;
  CPU_ZERO(&set);
  limits.cpus_from = "affinity";
  if (sched_getaffinity(0, sizeof set, &set) == 0) limits.cpus = std::max(1, CPU_COUNT(&set));
  if (const int quota = QuotaCpus(root); quota > 0 && quota < limits.cpus) {
    limits.cpus = quota;
    limits.cpus_from = "cgroup";
  }

  struct sysinfo info {};
  sysinfo(&info);
  limits.memory_bytes = static_cast<std::uint64_t>(info.totalram) * info.mem_unit;
  limits.memory_from = "machine";
  for (const std::uint64_t limit :
       {SmallestLimit(CgroupFolders(root, "/sys/fs/cgroup", ""), "memory.max"),
        SmallestLimit(CgroupFolders(root, "/sys/fs/cgroup/memory", "memory"),
                      "memory.limit_in_bytes")}) {
    if (limit > 0 && limit < limits.memory_bytes) {
      limits.memory_bytes = limit;
      limits.memory_from = "cgroup";
    }
  }
  return limits;
}

AvailableMemory ReadAvailableMemory(const std::string& root) {
  AvailableMemory smallest{NumberAfter(root + "/proc/meminfo", "MemAvailable:") << 10, "machine"};
  TakeSmallest(root, {"/sys/fs/cgroup", "", "memory.max", "memory.current", ""}, smallest);
  TakeSmallest(root,
               {"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                "total_"},
               smallest);
  return smallest;
}

std::string NetworkHostId() {
  struct stat network {};
  stat("/proc/self/ns/net", &network);
  return FirstLine("/proc/sys/kernel/random/boot_id") + "/" + std::to_string(network.st_ino);
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string Whereabouts() { return HostName() + ":" + std::to_string(getpid()); }

}  // namespace millrace
