#include "common/base/host.h"

#include <sched.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

namespace millrace {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The folder of this process in the hierarchy of `controller` ("" for cgroup v2).
std::string CgroupFolder(const std::string& controller) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : names.find(controller) != std::string::npos) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

/// The smallest value of `file` in `folder` and above, below `root`; 0 where there is none.
std::uint64_t SmallestLimit(const std::string& root, std::string folder, const std::string& file) {
  std::uint64_t smallest = 0;
  for (;;) {
    std::istringstream in(FirstLine(root + folder + "/" + file));
    std::uint64_t limit = 0;
    if (in >> limit && limit > 0 && (smallest == 0 || limit < smallest)) smallest = limit;
    if (folder.empty() || folder == "/") return smallest;
    folder = folder.substr(0, folder.rfind('/'));
  }
}

/// CPUs that the cgroup's quota allows, rounded up; 0: no quota.
int QuotaCpus() {
  std::istringstream v2(FirstLine("/sys/fs/cgroup" + CgroupFolder("") + "/cpu.max"));
  double quota = 0;
  double period = 0;
  if (!(v2 >> quota >> period)) {
    const std::string folder = "/sys/fs/cgroup/cpu" + CgroupFolder("cpu");
    std::istringstream(FirstLine(folder + "/cpu.cfs_quota_us")) >> quota;
    std::istringstream(FirstLine(folder + "/cpu.cfs_period_us")) >> period;
  }
  return quota > 0 && period > 0 ? static_cast<int>(std::ceil(quota / period)) : 0;
}

}  // namespace

HostLimits ReadHostLimits() {
  HostLimits limits;
  cpu_set_t set;
  CPU_ZERO(&set);
  limits.cpus_from = "affinity";
  if (sched_getaffinity(0, sizeof set, &set) == 0) limits.cpus = std::max(1, CPU_COUNT(&set));
  if (const int quota = QuotaCpus(); quota > 0 && quota < limits.cpus) {
    limits.cpus = quota;
    limits.cpus_from = "cgroup";
  }

  struct sysinfo info {};
  sysinfo(&info);
  limits.memory_bytes = static_cast<std::uint64_t>(info.totalram) * info.mem_unit;
  limits.memory_from = "machine";
  for (const std::uint64_t limit :
       {SmallestLimit("/sys/fs/cgroup", CgroupFolder(""), "memory.max"),
        SmallestLimit("/sys/fs/cgroup/memory", CgroupFolder("memory"), "memory.limit_in_bytes")}) {
    if (limit > 0 && limit < limits.memory_bytes) {
      limits.memory_bytes = limit;
      limits.memory_from = "cgroup";
    }
  }
  return limits;
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
