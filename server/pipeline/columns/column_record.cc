#include "server/pipeline/columns/column_record.h"

#include <utility>

#include "common/base/hash.h"
#include "common/base/protocol_limits.h"
#include "server/pipeline/columns/column_bytes.h"

namespace millrace {
namespace {

// First example, number of examples, width.
constexpr std::size_t kRecordHead = 8 + 4 + 4;
constexpr std::size_t kChecksum = 8;

}  // namespace

std::vector<std::byte> EncodeRecord(const ColumnRecord& record) {
  std::vector<std::byte> out;
  PutNumber(out, record.first);
  PutNumber(out, static_cast<std::uint32_t>(record.values.size()));
  PutNumber(out, std::uint32_t{record.values.width()});
  const auto bytes = std::as_bytes(record.values.bytes());
  out.insert(out.end(), bytes.begin(), bytes.end());
  PutNumber(out, Xxh3_64(out));
  return out;
}

Result<ColumnRecord> TakeRecord(std::span<const std::byte>& in) {
  const Status cut = DataLoss("a record that is cut off or damaged");
  if (in.size() < kRecordHead) return cut;
  std::span<const std::byte> rest = in;
  const auto first = TakeNumber<std::uint64_t>(rest);
  const auto count = TakeNumber<std::uint32_t>(rest);
  const auto width = TakeNumber<std::uint32_t>(rest);
  if (count > kMeasuredRange || width == 0 || width > 8) return cut;
  const std::size_t size = std::size_t{count} * width;
  if (rest.size() < size + kChecksum) return cut;
  const std::span<const std::byte> summed = in.first(kRecordHead + size);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(rest.data());
  rest = rest.subspan(size);
  if (TakeNumber<std::uint64_t>(rest) != Xxh3_64(summed)) return cut;
  MILLRACE_ASSIGN_OR_RETURN(
      MeasuredValues values,
      MeasuredValues::FromBytes(std::vector<std::uint8_t>(bytes, bytes + size), width));
  in = rest;
  return ColumnRecord{first, std::move(values)};
}

}  // namespace millrace
