#include <catch2/catch.hpp>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "common/system/host.h"

namespace millrace {
namespace {

TEST_CASE("a process in another network namespace is on another host", "[host]") {
  const std::string here = NetworkHostId();
  CHECK(NetworkHostId() == here);
  const pid_t child = fork();
  if (child == 0) {
    // Without privileges, a new network namespace needs a new user namespace too.
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) _exit(errno);
    _exit(NetworkHostId() == here ? 255 : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  const int result = WEXITSTATUS(status);
  if (result != 0 && result != 255) {
    WARN("skipped: the kernel gives no network namespace: " << std::strerror(result));
    return;
  }
  CHECK(result == 0);
}

/// A machine's files below a temporary folder, for ReadHostLimits.
struct FakeRoot {
  FakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "millrace-host-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path = name;
  }
  ~FakeRoot() { std::filesystem::remove_all(path); }
  void Write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((path / file).parent_path());
    std::ofstream(path / file) << text << "\n";
  }
  HostLimits Read() const { return ReadHostLimits(path.string()); }
  AvailableMemory Available() const { return ReadAvailableMemory(path.string()); }
  std::filesystem::path path;
};

TEST_CASE("memory that is available is what machine and cgroups have left", "[host]") {
  const FakeRoot root;
  CHECK(root.Available().bytes == 0);  // nobody says how much there is
  root.Write("proc/meminfo", "MemTotal:  200 kB\nMemAvailable:     100 kB\nBuffers: 3 kB");
  CHECK(root.Available().bytes == 100 << 10);
  CHECK(root.Available().from == "machine");
  root.Write("proc/self/cgroup", "0::/work.slice/job\n4:memory:/box");
  root.Write("sys/fs/cgroup/work.slice/job/memory.max", "max");
  root.Write("sys/fs/cgroup/work.slice/job/memory.current", "90000");
  CHECK(root.Available().bytes == 100 << 10);
  root.Write("sys/fs/cgroup/work.slice/memory.max", "100000");
  root.Write("sys/fs/cgroup/work.slice/memory.current", "90000");
  CHECK(root.Available().bytes == 10000);
  CHECK(root.Available().from == "cgroup");
  // The page cache gives way.
  root.Write("sys/fs/cgroup/work.slice/memory.stat", "anon 7\nactive_file 500\ninactive_file 2000");
  CHECK(root.Available().bytes == 12500);
  root.Write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "5000");
  root.Write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "4000");
  root.Write("sys/fs/cgroup/memory/box/memory.stat",
             "active_file 1\ntotal_active_file 300\ntotal_inactive_file 100");
  CHECK(root.Available().bytes == 1400);
  root.Write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "9000");
  CHECK(root.Available().bytes == 0);
  CHECK(ReadAvailableMemory().bytes > 0);
}

TEST_CASE("a machine without cgroups gives all that it has", "[host]") {
  const FakeRoot root;
  CHECK(root.Read().memory_from == "machine");
  CHECK(root.Read().cpus_from == "affinity");
  CHECK(root.Read().memory_bytes > 0);
  CHECK(root.Read().cpus >= 1);
}

TEST_CASE("of a cgroup (v2) and all above it the smallest limit counts", "[host]") {
  const FakeRoot root;
  root.Write("proc/self/cgroup", "0::/work.slice/job/one");
  root.Write("sys/fs/cgroup/work.slice/job/one/memory.max", "max");
  root.Write("sys/fs/cgroup/work.slice/job/one/cpu.max", "max 100000");
  root.Write("sys/fs/cgroup/work.slice/job/memory.max", "50000000");
  root.Write("sys/fs/cgroup/work.slice/memory.max", "60000000");
  CHECK(root.Read().memory_bytes == 50'000'000);
  CHECK(root.Read().memory_from == "cgroup");
  CHECK(root.Read().cpus_from == "affinity");
  root.Write("sys/fs/cgroup/work.slice/memory.max", "40000000");
  CHECK(root.Read().memory_bytes == 40'000'000);
  // The limits of another group do not count.
  root.Write("sys/fs/cgroup/work.slice/other/memory.max", "1000");
  CHECK(root.Read().memory_bytes == 40'000'000);
  if (root.Read().cpus == 1) return;  // there is no smaller number to test
  root.Write("sys/fs/cgroup/work.slice/cpu.max", "50000 100000");
  CHECK(root.Read().cpus == 1);
  CHECK(root.Read().cpus_from == "cgroup");
}

TEST_CASE("a container's cgroup (v1) is where it is mounted, whatever the host calls it",
          "[host]") {
  const FakeRoot root;
  root.Write("proc/self/cgroup", "5:memory:/docker/c0ffee\n4:cpu,cpuacct:/docker/c0ffee");
  root.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "70000000");
  root.Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  root.Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  CHECK(root.Read().memory_bytes == 70'000'000);
  CHECK(root.Read().cpus_from == "affinity");
  if (root.Read().cpus == 1) return;
  root.Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "80000");
  CHECK(root.Read().cpus == 1);
  CHECK(root.Read().cpus_from == "cgroup");
}

TEST_CASE("limits that are no limits are none", "[host]") {
  const FakeRoot root;
  root.Write("proc/self/cgroup", "nonsense\n:\n1:memory:a\n0::/a");
  root.Write("sys/fs/cgroup/a/memory.max", "0");
  root.Write("sys/fs/cgroup/a/cpu.max", "0 0");
  root.Write("sys/fs/cgroup/memory.max", "9223372036854771712");  // cgroup v1's "no limit"
  CHECK(root.Read().memory_from == "machine");
  CHECK(root.Read().cpus_from == "affinity");
}

}  // namespace
}  // namespace millrace
