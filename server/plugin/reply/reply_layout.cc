#include "server/plugin/reply/reply_layout.h"

#include <fmt/format.h>

namespace millrace {
namespace {

std::uint64_t AtLine(std::uint64_t place) { return (place + 63) / 64 * 64; }

}  // namespace

Result<ReplyLayout> LayOutReply(const std::vector<TensorType>& types, std::uint64_t rows) {
  if (rows > kMaxReplyRows) {
    return InvalidArgument(fmt::format("{} rows, of at most {}", rows, kMaxReplyRows));
  }
  ReplyLayout layout;
  layout.types = types;
  layout.rows = rows;
  layout.outcomes = kReplyHeadBytes;
  layout.places.resize(types.size());
  std::uint64_t end = AtLine(layout.outcomes + rows);
  for (std::size_t t = 0; t < types.size(); ++t) {
    MILLRACE_RETURN_IF_ERROR(CheckTensorType(types[t]));
    if (!types[t].ragged) continue;
    layout.places[t] = end;
    end = AtLine(end + 16 * rows);
  }
  layout.columns = end;
  for (std::size_t t = 0; t < types.size(); ++t) {
    if (types[t].ragged) continue;
    layout.places[t] = end;
    end = AtLine(end + types[t].UnitBytes() * rows);
    if (end > kMaxReplyBytes) {
      return InvalidArgument(
          fmt::format("{} rows of {} have too many bytes", rows, DescribeTensorType(types[t])));
    }
  }
  layout.heap = end;
  return layout;
}

}  // namespace millrace
