#include "server/plan/columns/column_record.h"

#include <utility>

#include "common/base/hash.h"
#include "common/base/protocol_limits.h"
#include "server/files/number_bytes.h"

namespace millrace {
namespace {

// First example, number of examples, width with type.
constexpr std::size_t kRecordHead = 8 + 4 + 4;
constexpr std::size_t kChecksum = 8;
constexpr unsigned kTypeShift = 8;  // of the type, above the width

}  // namespace

std::vector<std::byte> EncodeRecord(const ColumnRecord& record) {
  std::vector<std::byte> out;
  PutNumber(out, record.first);
  PutNumber(out, static_cast<std::uint32_t>(record.values.size()));
  PutNumber(out, std::uint32_t{record.values.width()} |
                     static_cast<std::uint32_t>(record.values.type()) << kTypeShift);
  for (const std::span<const std::uint8_t> array :
       {record.values.bytes(), record.values.present()}) {
    const auto bytes = std::as_bytes(array);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  PutNumber(out, Xxh3_64(out));
  return out;
}

Result<ColumnRecord> TakeRecord(std::span<const std::byte>& in) {
  const Status cut = DataLoss("a record that is cut off or damaged");
  if (in.size() < kRecordHead) return cut;
  std::span<const std::byte> rest = in;
  const auto first = TakeNumber<std::uint64_t>(rest);
  const auto count = TakeNumber<std::uint32_t>(rest);
  const auto form = TakeNumber<std::uint32_t>(rest);
  const std::uint32_t width = form & ((1u << kTypeShift) - 1);
  const std::uint32_t type = form >> kTypeShift;
  if (count > kMeasuredRange || width == 0 || width > 8) return cut;
  if (type > static_cast<std::uint32_t>(MeasuredType::kFloat32)) return cut;
  const std::size_t of_values = std::size_t{count} * width;
  const std::size_t size = of_values + (type == 0 ? 0 : (std::size_t{count} + 7) / 8);
  if (rest.size() < size + kChecksum) return cut;
  const std::span<const std::byte> summed = in.first(kRecordHead + size);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(rest.data());
  rest = rest.subspan(size);
  if (TakeNumber<std::uint64_t>(rest) != Xxh3_64(summed)) return cut;
  MILLRACE_ASSIGN_OR_RETURN(
      MeasuredValues values,
      MeasuredValues::FromBytes(std::vector<std::uint8_t>(bytes, bytes + of_values), width,
                                static_cast<MeasuredType>(type),
                                std::vector<std::uint8_t>(bytes + of_values, bytes + size)));
  in = rest;
  return ColumnRecord{first, std::move(values)};
}

}  // namespace millrace
