#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include "server/plan/pack/number_set.h"
#include "server/plan/pack/row_heaps.h"

namespace millrace::test {
namespace {

TEST_CASE("a set of numbers gives the next member", "[pack]") {
  rc::prop("for limits that need one to four levels", [] {
    const auto limit = *rc::gen::oneOf(
        rc::gen::inRange<std::uint32_t>(1, 300), rc::gen::inRange<std::uint32_t>(1, 9000),
        rc::gen::inRange<std::uint32_t>(1, (1u << 20) + 1),
        rc::gen::element<std::uint32_t>(64, 65, 4096, 4097, 1u << 18, (1u << 18) + 1, 1u << 20));
    NumberSet set(limit);
    std::set<std::uint32_t> plain;
    for (int i = 0; i < 100; ++i) {
      const auto number =
          *rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(0, limit),
                          rc::gen::map(rc::gen::inRange<std::uint32_t>(0, std::min(limit, 130u)),
                                       [limit](std::uint32_t below) { return limit - 1 - below; }));
      if (*rc::gen::inRange(0, 3) > 0) {
        set.Insert(number);
        plain.insert(number);
      } else {
        const auto erased = plain.lower_bound(number);
        if (erased != plain.end()) {
          set.Erase(*erased);
          plain.erase(erased);
        }
      }
      for (const std::uint32_t from : {0u, number, number + 1, limit}) {
        const auto next = plain.lower_bound(from);
        RC_ASSERT(set.Next(from) == (next == plain.end() ? NumberSet::kNone : *next));
      }
    }
  });
}

TEST_CASE("rows come by their room, and of equal rooms the lowest number first", "[pack]") {
  rc::prop("for any rows", [] {
    constexpr std::uint32_t kRows = 60;
    RowHeaps heaps(8);
    for (int round = 0; round < 2; ++round) {
      heaps.Reset(kRows);
      std::set<std::pair<std::uint32_t, std::uint32_t>> plain;  // room, row
      std::vector<std::uint32_t> absent;
      for (std::uint32_t row = 0; row < kRows; ++row) absent.push_back(row);
      for (int i = 0; i < 200; ++i) {
        if (!absent.empty() && *rc::gen::inRange(0, 5) > 1) {
          const auto which = *rc::gen::inRange<std::size_t>(0, absent.size());
          const auto room = *rc::gen::inRange<std::uint32_t>(0, 8);
          heaps.Add(room, absent[which]);
          plain.insert({room, absent[which]});
          absent.erase(absent.begin() + static_cast<std::ptrdiff_t>(which));
        }
        const auto least = *rc::gen::inRange<std::uint32_t>(0, 9);
        const auto next = plain.lower_bound({least, 0});
        RC_ASSERT(heaps.LeastRoom(least) == (next == plain.end() ? RowHeaps::kNone : next->first));
        if (next == plain.end() || *rc::gen::inRange(0, 2) == 0) continue;
        RC_ASSERT(heaps.Has(next->first));
        RC_ASSERT(heaps.TakeFirst(next->first) == next->second);
        absent.push_back(next->second);
        plain.erase(next);
      }
    }
  });
}

}  // namespace
}  // namespace millrace::test
