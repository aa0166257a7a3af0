#include "server/plugin/process/process_memory.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <cstring>
#include <vector>

namespace millrace {
namespace {

TEST_CASE("a line of kilobytes is found by its whole name", "[plugin][memory]") {
  constexpr std::string_view kText = "Pss:  17 kB\nPss_Anon:      12 kB\nPss_File: x kB\nLast: 3";
  CHECK(KilobyteLine(kText, "Pss_Anon:") == 12 << 10);
  CHECK(KilobyteLine(kText, "Pss:") == 17 << 10);
  CHECK(KilobyteLine(kText, "Last:") == 3 << 10);
  CHECK(KilobyteLine(kText, "Pss_File:") == -1);
  CHECK(KilobyteLine(kText, "Pss_Shmem:") == -1);
  CHECK(KilobyteLine("", "Pss:") == -1);
}

TEST_CASE("the memory of a process grows by what it writes to", "[plugin][memory]") {
  const std::uint64_t before = ShareOfMemory(::getpid());
  CHECK(before > 0);
  std::vector<char> more(64 << 20);
  std::memset(more.data(), 1, more.size());
  CHECK(ShareOfMemory(::getpid()) >= before + (60 << 20));
}

TEST_CASE("a process that is gone has no memory", "[plugin][memory]") {
  CHECK(ShareOfMemory(0x7ffffff0) == 0);
}

}  // namespace
}  // namespace millrace
