// Which entries of rows are drawn. The draws of a row are a pure function of the key, the row's
// number, the relation, the hop, the number of entries and the fan-out, on every processor:
//
//  - Words come from Philox4x32-10, with the counter (k / 4, number, relation, hop) for word k.
//  - A number of [0, m) is the upper half of word · m; if the lower half is below 2^32 mod m, the
//    next word is tried (Lemire, "Fast random integer generation in an interval", 2019).
//  - With `replace`, f numbers of [0, d) are drawn. Otherwise Floyd's algorithm chooses f of d
//    (Bentley and Floyd, "A sample of brilliance", 1987): for j = d - f, …, d - 1 a number t of
//    [0, j] is drawn; t is chosen, or j if t was chosen before.
//  - The places come in ascending order.
//
// Thread safety: a PlaceDraws belongs to a thread. It keeps its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

/// A row from which entries are drawn.
struct DrawnRow {
  std::uint32_t entries = 0;  // d
  std::uint32_t number = 0;   // of its node in the drawn graph
};

/// Options of rows that are drawn together.
struct DrawOptions {
  std::uint64_t key = 0;
  std::uint32_t hop = 0;
  std::uint32_t fanout = 1;  // f, at least 1
  bool replace = false;
  /// 0, or the label of the rows' edges plus 1 if these have fan-outs of their own.
  std::uint32_t relation = 0;
};

/// Values that may be written beyond the last place.
inline constexpr std::size_t kDrawSlack = 256;

class PlaceDraws {
 public:
  /// Draws `fanout` places of each row: the places of row i begin at places[i · fanout]. REQUIRES:
  /// each row has entries, and more than `fanout` of them unless `replace` is set; `places` has
  /// room, and for kDrawSlack values more, which are undefined then.
  void Draw(std::span<const DrawnRow> rows, const DrawOptions& options, std::uint32_t* places);

  /// Draw without the instructions of newer processors, for tests.
  void DrawPlainly(std::span<const DrawnRow> rows, const DrawOptions& options,
                   std::uint32_t* places);

 private:
  void DrawRow(const DrawnRow& row, const DrawOptions& options, std::uint32_t* places);

  std::vector<std::uint32_t> table_;  // of the places chosen so far: 0, or a place plus 1
  std::vector<std::uint32_t> again_;  // rows that vectors could not draw
};

}  // namespace millrace
