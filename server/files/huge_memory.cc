#include "server/files/huge_memory.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>

#include <sys/mman.h>

#include "common/system/errno_status.h"

namespace millrace {
namespace {

constexpr std::uint64_t kHugePage = std::uint64_t{2} << 20;

std::atomic<std::uint64_t> huge_memory_bytes{0};

std::uint64_t RoundUp(std::uint64_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

std::uint64_t AddressOf(const void* at) { return reinterpret_cast<std::uint64_t>(at); }

}  // namespace

Result<HugeMemory> HugeMemory::Allocate(std::uint64_t bytes) {
  // A huge page begins at a multiple of its size. What is before the first one and behind the last
  // one is given back.
  const std::uint64_t whole = RoundUp(bytes);
  const std::uint64_t taken = whole + kHugePage;
  void* const got =
      ::mmap(nullptr, taken, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return ErrnoStatus("memory cannot be allocated", errno);
  auto* const begin = static_cast<std::byte*>(got);
  const std::uint64_t before = RoundUp(AddressOf(begin)) - AddressOf(begin);
  if (before > 0) ::munmap(begin, before);
  if (before < kHugePage) ::munmap(begin + before + whole, kHugePage - before);
  HugeMemory memory;
  memory.data_ = begin + before;
  memory.size_ = bytes;
  // This is only a hint: a kernel without huge pages gives small ones.
  ::madvise(memory.data_, whole, MADV_HUGEPAGE);
  huge_memory_bytes += bytes;
  return memory;
}

HugeMemory::~HugeMemory() {
  if (data_ == nullptr) return;
  ::munmap(data_, RoundUp(size_));
  huge_memory_bytes -= size_;
}

std::uint64_t HugeMemory::HugeBytes() const {
  // Lines "BEGIN-END …" begin a mapping; lines "AnonHugePages: N kB" belong to the one before.
  std::ifstream in("/proc/self/smaps");
  std::uint64_t huge = 0;
  bool ours = false;
  for (std::string line; std::getline(in, line);) {
    unsigned long long begin = 0;
    unsigned long long end = 0;
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) {
      ours = begin < AddressOf(data_) + size_ && end > AddressOf(data_);
    } else if (ours && std::sscanf(line.c_str(), "AnonHugePages: %llu kB", &kib) == 1) {
      huge += std::uint64_t{kib} << 10;
    }
  }
  // A mapping beside this one may have become one with it.
  return std::min(huge, size_);
}

void HugeMemory::Protect() const { ::mprotect(data_, RoundUp(size_), PROT_READ); }

std::uint64_t HugeMemory::TotalBytes() { return huge_memory_bytes.load(); }

}  // namespace millrace
