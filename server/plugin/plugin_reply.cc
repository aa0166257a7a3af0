#include "server/plugin/plugin_reply.h"

#include <algorithm>

namespace millrace {

std::span<const std::byte> PluginReply::values(std::size_t tensor, std::size_t row) const {
  const Attempt& attempt = attempts_[rows_[row].attempt];
  const RowPlace place = attempt.table.Place(tensor, rows_[row].number);
  return std::span<const std::byte>(attempt.memory->bytes()).subspan(place.offset, place.bytes);
}

std::uint64_t PluginReply::extent(std::size_t tensor, std::size_t row) const {
  return attempts_[rows_[row].attempt].table.Place(tensor, rows_[row].number).extent;
}

std::optional<std::span<const std::byte>> PluginReply::column(std::size_t tensor) const {
  if (attempts_.size() != 1 || Count(RowOutcome::kDone) != rows_.size()) return std::nullopt;
  const ReplyLayout& layout = attempts_[0].table.layout;
  if (layout.types[tensor].ragged) return std::nullopt;
  return std::span<const std::byte>(attempts_[0].memory->bytes())
      .subspan(layout.places[tensor], layout.types[tensor].UnitBytes() * layout.rows);
}

std::size_t PluginReply::Count(RowOutcome outcome) const {
  return static_cast<std::size_t>(std::count_if(
      rows_.begin(), rows_.end(), [outcome](const Row& row) { return row.outcome == outcome; }));
}

}  // namespace millrace
