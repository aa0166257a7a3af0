// The rows of PackMethod::kFit.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/system/mutex.h"
#include "server/plan/pack/pack_rows.h"
#include "server/plan/pack/packed_window.h"
#include "server/plan/pack/recent_values.h"
#include "server/plan/pack/window_packer.h"

namespace millrace {

class FitRows final : public PackRows {
 public:
  /// As PackRows::Make. REQUIRES: the layout is of kFit.
  FitRows(std::shared_ptr<const PackLayout> layout, std::shared_ptr<const DocumentLengths> lengths,
          std::uint64_t cache_bytes)
      : PackRows(std::move(layout), std::move(lengths)), windows_(cache_bytes) {}

  Status AppendPieces(std::uint64_t row, std::vector<Piece>& pieces) const override;
  Status ReadColumns(std::uint64_t first, std::span<RowColumns> columns) const override;
  Result<DocumentRows> RowsOf(std::uint64_t document) const override;
  RecentValuesStats cache_stats() const override { return windows_.stats(); }

 private:
  using WindowPtr = std::shared_ptr<const PackedWindow>;
  /// Memory that is used for packing a window, and kept for the next one.
  struct Bench {
    explicit Bench(const PackOptions& options) : packer(options) {}
    WindowPacker packer;
    std::vector<std::uint64_t> lengths;
  };

  /// A window, from the cache or packed now.
  Result<WindowPtr> Window(std::uint64_t window) const;
  Result<WindowPtr> Pack(std::uint64_t window) const;

  mutable RecentValues<PackedWindow> windows_;
  mutable Mutex mutex_;
  // As many as threads have packed at once.
  mutable std::vector<std::unique_ptr<Bench>> benches_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
