#include "server/plugin/plugin_reply.h"

#include <algorithm>

namespace millrace {

std::span<const std::byte> PluginReply::values(std::size_t tensor, std::size_t row) const {
  const Part& part = parts_[rows_[row].part];
  const RowPlace place = part.table.Place(tensor, rows_[row].number);
  return std::span<const std::byte>(part.memory->bytes()).subspan(place.offset, place.bytes);
}

std::uint64_t PluginReply::extent(std::size_t tensor, std::size_t row) const {
  return parts_[rows_[row].part].table.Place(tensor, rows_[row].number).extent;
}

std::optional<std::span<const std::byte>> PluginReply::column(std::size_t tensor) const {
  if (parts_.size() != 1 || Count(RowOutcome::kDone) != rows_.size()) return std::nullopt;
  const ReplyLayout& layout = parts_[0].table.layout;
  if (layout.types[tensor].ragged) return std::nullopt;
  return std::span<const std::byte>(parts_[0].memory->bytes())
      .subspan(layout.places[tensor], layout.types[tensor].UnitBytes() * layout.rows);
}

std::size_t PluginReply::Count(RowOutcome outcome) const {
  return static_cast<std::size_t>(std::count_if(
      rows_.begin(), rows_.end(), [outcome](const Row& row) { return row.outcome == outcome; }));
}

}  // namespace millrace
