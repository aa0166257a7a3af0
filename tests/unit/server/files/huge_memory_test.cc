#include "server/files/huge_memory.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>

namespace millrace {
namespace {

bool KernelGivesHugePages() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes;
  std::getline(in, modes);
  return modes.find("[never]") == std::string::npos && !modes.empty();
}

TEST_CASE("memory in huge pages is zeros, begins at a huge page, and can be written",
          "[huge_memory]") {
  const std::uint64_t before = HugeMemory::TotalBytes();
  {
    auto memory = HugeMemory::Allocate((std::uint64_t{6} << 20) + 5);
    REQUIRE(memory.ok());
    CHECK(HugeMemory::TotalBytes() == before + (6 << 20) + 5);
    const auto bytes = memory->bytes();
    REQUIRE(bytes.size() == (6 << 20) + 5);
    CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % (2 << 20) == 0);
    CHECK(memory->HugeBytes() == 0);  // none was written to
    CHECK(bytes.back() == std::byte{0});
    std::fill(bytes.begin(), bytes.end(), std::byte{7});
    memory->Protect();
    CHECK(std::count(bytes.begin(), bytes.end(), std::byte{7}) == (6 << 20) + 5);
    CHECK(memory->HugeBytes() <= bytes.size());
    // The machine may be short of them, so their number is not known.
    if (!KernelGivesHugePages()) CHECK(memory->HugeBytes() == 0);
    HugeMemory moved = *std::move(memory);
    CHECK(moved.bytes().data() == bytes.data());
    CHECK(memory->bytes().empty());
    CHECK(HugeMemory::TotalBytes() == before + (6 << 20) + 5);
  }
  CHECK(HugeMemory::TotalBytes() == before);
}

TEST_CASE("memory that is assigned over is given back", "[huge_memory]") {
  const std::uint64_t before = HugeMemory::TotalBytes();
  HugeMemory memory;
  CHECK(memory.bytes().empty());
  CHECK(memory.HugeBytes() == 0);
  for (const std::uint64_t bytes : {1, 4096, 2 << 20}) {
    memory = *HugeMemory::Allocate(bytes);
    CHECK(HugeMemory::TotalBytes() == before + bytes);
  }
}

TEST_CASE("more memory than there are addresses is refused", "[huge_memory]") {
  CHECK(HugeMemory::Allocate(std::uint64_t{1} << 60).status().code() ==
        StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace millrace
