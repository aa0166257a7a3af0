#include "common/operations/bit_gather.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <catch2/catch.hpp>

#include <cstring>

#include "common/operations/stream.h"

namespace millrace {
namespace {

/// A map of `groups` groups, each of which reads a few neighbouring bytes as the first one does.
std::vector<std::uint32_t> AnyMap(std::size_t group, std::size_t groups, std::size_t bytes) {
  std::vector<std::uint32_t> first;
  for (std::size_t i = 0; i < group; ++i) {
    first.push_back(*rc::gen::inRange<std::uint32_t>(0, static_cast<std::uint32_t>(8 * bytes)));
  }
  std::vector<std::uint32_t> map;
  for (std::size_t g = 0; g < groups; ++g) {
    for (const std::uint32_t place : first) {
      map.push_back(place + static_cast<std::uint32_t>(8 * g));
    }
  }
  return map;
}

TEST_CASE("values are chosen by bits, however many at once", "[bits]") {
  rc::prop("maps of every group", [] {
    const std::size_t group = 8 * *rc::gen::inRange<std::size_t>(1, 9);
    const std::size_t groups = *rc::gen::inRange<std::size_t>(1, 20);
    const std::size_t bytes = *rc::gen::inRange<std::size_t>(1, 1 + group / 2);
    const std::vector<std::uint32_t> map = AnyMap(group, groups, bytes);
    const auto in = *rc::gen::container<std::vector<std::uint8_t>>(
        bytes + groups, rc::gen::arbitrary<std::uint8_t>());
    const bool low_is_zero = *rc::gen::arbitrary<bool>();
    std::vector<std::uint32_t> low(map.size(), 0);
    std::vector<std::uint32_t> high;
    for (std::uint32_t i = 0; i < map.size(); ++i) {
      if (!low_is_zero) low[i] = 1'000'000 + i;
      high.push_back(2'000'000 + i);
    }
    for (std::size_t lanes = 4; lanes <= BitGather::MostLanes(); lanes *= 2) {
      const BitGather gather(map, 255, lanes);
      for (const bool stream : {false, true}) {
        std::vector<std::uint32_t> room(map.size() + 32, 77);
        const auto past = reinterpret_cast<std::uintptr_t>(room.data()) % kStreamAlignment;
        std::uint32_t* const out = room.data() + (kStreamAlignment - past) / 4;
        const std::size_t done =
            gather.Select(in.data(), 0, map.size(),
                          {reinterpret_cast<const std::byte*>(low.data()),
                           reinterpret_cast<const std::byte*>(high.data()), low_is_zero, stream},
                          reinterpret_cast<std::byte*>(out));
        FinishStream();
        // Without tables, it has nothing to do; two groups at once leave at most one over.
        if (gather.group() == 0) {
          RC_ASSERT(done == 0U);
        } else {
          RC_ASSERT(done + gather.group() >= map.size());
        }
        for (std::size_t i = 0; i < done; ++i) {
          const bool set = (in[map[i] / 8] >> (map[i] % 8) & 1) != 0;
          RC_ASSERT(out[i] == (set ? high[i] : low[i]));
        }
        RC_ASSERT(out[done] == 77U);
      }
    }
    RC_CLASSIFY(BitGather(map, 255).group() != 0);
  });
}

}  // namespace
}  // namespace millrace
