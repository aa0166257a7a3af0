#include "common/operations/convert_kernels.h"

#include <catch2/catch.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "common/tensor/convert.h"

namespace millrace {
namespace {

/// Whether the loop gives the bits of ConvertValue, for any number of values.
template <class To, class From>
bool SameAsOneByOne(DType from, DType to, const std::vector<From>& values) {
  std::vector<To> out(values.size());
  for (const std::size_t count : {values.size(), std::size_t{0}, std::size_t{1}, std::size_t{13}}) {
    out.assign(values.size(), To{0x5555});
    ConvertLoopOf(from, to)(std::as_bytes(std::span(values)).data(),
                            std::as_writable_bytes(std::span(out)).data(), count);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const To expected = i < count ? ConvertValue<To>(values[i]) : To{0x5555};
      if (std::bit_cast<std::uint16_t>(out[i]) != std::bit_cast<std::uint16_t>(expected)) {
        UNSCOPED_INFO("value " << i << " of " << count);
        return false;
      }
    }
  }
  return true;
}

TEST_CASE("loops make the small floats that single values become", "[convert]") {
  std::mt19937 random(1);
  std::vector<float> floats;
  for (std::uint32_t upper = 0; upper < 512; ++upper) {
    floats.push_back(std::bit_cast<float>(upper << 23));
    floats.push_back(std::bit_cast<float>(upper << 23 | 1));
    for (int i = 0; i < 200; ++i) {
      const auto mantissa = static_cast<std::uint32_t>(random() & 0x7fffff);
      floats.push_back(std::bit_cast<float>(upper << 23 | mantissa));
      floats.push_back(std::bit_cast<float>(upper << 23 | (mantissa & 0x7ff000)));  // ties
    }
  }
  CHECK(SameAsOneByOne<Float16>(DType::kFloat32, DType::kFloat16, floats));
  CHECK(SameAsOneByOne<BFloat16>(DType::kFloat32, DType::kBFloat16, floats));
  std::vector<Float16> halves;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    halves.push_back({static_cast<std::uint16_t>(bits)});
  }
  CHECK(SameAsOneByOne<BFloat16>(DType::kFloat16, DType::kBFloat16, halves));
}

}  // namespace
}  // namespace millrace
