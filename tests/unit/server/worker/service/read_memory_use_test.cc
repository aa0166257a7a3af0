#include <catch2/catch.hpp>

#include <cstring>
#include <vector>

#include "server/files/huge_memory.h"
#include "server/worker/service/read_memory_use.h"

namespace millrace {
namespace {

TEST_CASE("the kernel's count of this process grows with what it touches", "[memory]") {
  const MemoryUse before = ReadMemoryUse();
  REQUIRE(before.anonymous > 0);
  std::vector<char> touched(64 << 20);
  std::memset(touched.data(), 1, touched.size());
  CHECK(ReadMemoryUse().anonymous >= before.anonymous + (60 << 20));
  CHECK(touched[12345] == 1);
}

TEST_CASE("datasets in memory are not counted as the process's own", "[memory]") {
  const MemoryUse before = ReadMemoryUse();
  auto memory = HugeMemory::Allocate(64 << 20);
  REQUIRE(memory.ok());
  std::memset(memory->bytes().data(), 1, memory->bytes().size());
  CHECK(ReadMemoryUse().anonymous < before.anonymous + (16 << 20));
}

}  // namespace
}  // namespace millrace
