#include "server/plan/pack/fit_rows.h"

#include <algorithm>
#include <cassert>

#include "server/plan/pack/length_sums.h"

namespace millrace {

Status FitRows::AppendPieces(std::uint64_t row, std::vector<Piece>& pieces) const {
  assert(row < layout_->rows());
  const std::uint64_t window = layout_->GroupAt(row);
  MILLRACE_ASSIGN_OR_RETURN(const WindowPtr packed, Window(window));
  packed->AppendPieces(row - layout_->Begin(window), pieces);
  return OkStatus();
}

Status FitRows::ReadColumns(std::uint64_t first, std::span<RowColumns> columns) const {
  while (!columns.empty()) {
    assert(first < layout_->rows());
    const std::uint64_t window = layout_->GroupAt(first);
    MILLRACE_ASSIGN_OR_RETURN(const WindowPtr packed, Window(window));
    const std::uint64_t row = first - layout_->Begin(window);
    const std::size_t some = std::min<std::uint64_t>(columns.size(), packed->size() - row);
    packed->ReadColumns(row, columns.first(some));
    first += some;
    columns = columns.subspan(some);
  }
  return OkStatus();
}

Result<DocumentRows> FitRows::RowsOf(std::uint64_t document) const {
  std::uint64_t length = 0;
  lengths_->Read(document, {&length, 1});
  const PackOptions& options = layout_->options();
  if (length == 0) return DocumentRows{DocumentRows::Reason::kEmpty, {}};
  if (length > options.size && options.above == PackAbove::kDrop) {
    return DocumentRows{DocumentRows::Reason::kAbove, {}};
  }
  const std::uint64_t window = layout_->GroupOf(document);
  MILLRACE_ASSIGN_OR_RETURN(const WindowPtr packed, Window(window));
  DocumentRows rows{DocumentRows::Reason::kHasRows, packed->RowsOf(document)};
  for (RowRun& run : rows.runs) run.first += layout_->Begin(window);
  return rows;
}

Result<FitRows::WindowPtr> FitRows::Window(std::uint64_t window) const {
  return windows_.Get(window, [&] { return Pack(window); });
}

Result<FitRows::WindowPtr> FitRows::Pack(std::uint64_t window) const {
  std::unique_ptr<Bench> bench;
  {
    MutexLock lock(mutex_);
    if (!benches_.empty()) {
      bench = std::move(benches_.back());
      benches_.pop_back();
    }
  }
  if (bench == nullptr) bench = std::make_unique<Bench>(layout_->options());
  ReadGroup(window, bench->lengths);
  if (AddLengths(bench->lengths) > kMaxPackElements) return TooManyElements(layout_->documents());
  WindowPtr packed = bench->packer.Pack(layout_->FirstDocument(window), bench->lengths);
  {
    MutexLock lock(mutex_);
    benches_.push_back(std::move(bench));
  }
  if (packed->size() != layout_->CountOf(window)) return Contradicts(window, packed->size());
  return packed;
}

}  // namespace millrace
