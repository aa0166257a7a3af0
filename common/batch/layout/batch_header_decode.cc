#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/batch/layout/batch_header.h"
#include "common/batch/layout/batch_header_format.h"

namespace millrace {
namespace {

using internal::kBatchMagic;
using internal::kChecksumBytes;
using internal::kFixedBytes;
using internal::kNoTensor;
using internal::kTensorFixedBytes;
using internal::RecordBytes;

constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{1} << 32;
// Even the sizes of kMaxTensors tensors add up without an overflow.
constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 48;

/// Reads values one after another. The first error stays in status(); from then on every value is
/// 0.
class HeaderReader {
 public:
  /// `end` is the offset at which the values end and the checksum begins.
  HeaderReader(std::span<const std::byte> bytes, std::uint64_t end) : bytes_(bytes), end_(end) {}

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return end_ - at_; }

  void Fail(std::uint64_t offset, std::string_view what, std::string_view expected,
            std::string_view got) {
    if (!ok()) return;
    status_ = DataLoss(fmt::format("batch header: {} at offset {}: expected {}, got {}", what,
                                   offset, expected, got));
  }
  /// False, and an error, if fewer than `bytes` bytes are left.
  bool Need(std::uint64_t bytes, std::string_view what) {
    if (ok() && bytes > left()) {
      Fail(at_, what, fmt::format("{} bytes", bytes), fmt::format("{}", left()));
    }
    return ok();
  }
  template <class T>
  T Take(std::string_view what) {
    T value{};
    if (!Need(sizeof(T), what)) return value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  /// Reads a number in [min, max].
  template <class T>
  T TakeIn(std::string_view what, T min, T max) {
    const std::uint64_t offset = at_;
    const T value = Take<T>(what);
    if (!ok()) return min;
    if (value < min || value > max) {
      Fail(offset, what, fmt::format("{} to {}", min, max), fmt::format("{}", value));
      return min;
    }
    return value;
  }
  std::string_view TakeBytes(std::string_view what, std::uint64_t bytes) {
    if (!Need(bytes, what)) return {};
    const auto* begin = reinterpret_cast<const char*>(bytes_.data() + at_);
    at_ += bytes;
    return {begin, static_cast<std::size_t>(bytes)};
  }
  std::string TakeName(std::string_view what) {
    const std::uint8_t size = Take<std::uint8_t>(what);
    return std::string(TakeBytes(what, size));
  }
  void TakeZeros(std::uint64_t end, std::string_view what) {
    if (!ok()) return;
    if (end < at_ || end > end_) {
      return Fail(at_, what, fmt::format("an end of at most {}", end_), fmt::format("{}", end));
    }
    for (; at_ < end; ++at_) {
      if (bytes_[at_] != std::byte{0}) return Fail(at_, what, "0", "another byte");
    }
  }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t end_;
  std::uint64_t at_ = 0;
  Status status_;
};

/// One tensor as its record describes it. Splits tensors are given by number.
struct Record {
  TensorPlace place;
  std::uint32_t splits = kNoTensor;
  std::uint32_t node_splits = kNoTensor;
  std::uint64_t begin = 0;  // offset of the record
};

/// Reads the extents of a row. Afterwards their product is at most kMaxRowValues.
void TakeInner(HeaderReader& reader, std::uint8_t count, std::vector<std::uint64_t>& inner) {
  std::uint64_t values = 1;
  for (std::uint8_t i = 0; i < count; ++i) {
    const std::uint64_t offset = reader.at();
    // If rows had no bytes, any number of rows would be legal.
    const auto extent = reader.TakeIn<std::uint64_t>("inner extent", 1, kMaxRowValues);
    if (!reader.ok()) return;
    values *= extent;  // at most the square of kMaxRowValues
    if (values > kMaxRowValues) {
      return reader.Fail(offset, "inner extent",
                         fmt::format("at most {} values in a row", kMaxRowValues),
                         fmt::format("{}", values));
    }
    inner.push_back(extent);
  }
}

Record TakeRecord(HeaderReader& reader) {
  Record record;
  record.begin = reader.at();
  TensorPlace& place = record.place;
  TensorSpec& spec = place.spec;
  spec.kind = static_cast<TensorKind>(reader.TakeIn<std::uint8_t>(
      "tensor kind", 0, static_cast<std::uint8_t>(TensorKind::kTableReference)));
  spec.dtype = static_cast<DType>(
      reader.TakeIn<std::uint8_t>("dtype", 0, static_cast<std::uint8_t>(DType::kFloat64)));
  spec.expansion = static_cast<Expansion>(
      reader.TakeIn<std::uint8_t>("expansion", 0, static_cast<std::uint8_t>(Expansion::kKeep)));
  const auto inner =
      reader.TakeIn<std::uint8_t>("number of inner extents", 0, std::uint8_t{kMaxInner});
  const auto record_bytes = reader.Take<std::uint32_t>("size of the tensor's record");
  record.splits = reader.Take<std::uint32_t>("number of the splits tensor");
  record.node_splits = reader.Take<std::uint32_t>("number of the node splits tensor");
  spec.min = reader.Take<std::int64_t>("lower bound");
  spec.max = reader.Take<std::uint64_t>("upper bound");
  place.offset = reader.Take<std::uint64_t>("tensor offset");
  const std::uint64_t bytes_at = reader.at();
  place.bytes = reader.TakeIn<std::uint64_t>("tensor bytes", 0, kMaxTensorBytes);

  place.rows = reader.TakeIn<std::uint64_t>("tensor rows", 0, kMaxTensorBytes);
  TakeInner(reader, inner, spec.inner);
  std::uint64_t expected_bytes = 0;
  const bool fits = !__builtin_mul_overflow(place.rows, spec.row_bytes(), &expected_bytes);
  if (!fits || expected_bytes != place.bytes) {
    reader.Fail(bytes_at, "tensor bytes",
                fits ? fmt::format("{} as the shape says", expected_bytes) : "a shape that fits",
                fmt::format("{}", place.bytes));
  }
  spec.path = reader.TakeName("tensor path");
  spec.dimension = reader.TakeName("name of a dimension");
  if (!reader.ok()) return record;
  if (record_bytes != RecordBytes(place)) {
    reader.Fail(record.begin + 4, "size of the tensor's record",
                fmt::format("{}", RecordBytes(place)), fmt::format("{}", record_bytes));
  }
  reader.TakeZeros(record.begin + record_bytes, "padding of a tensor's record");
  return record;
}

/// Turns the number of a splits tensor into its path.
void Resolve(HeaderReader& reader, const std::vector<Record>& records, std::uint32_t number,
             std::uint64_t offset, std::string& path) {
  if (number == kNoTensor || !reader.ok()) return;
  if (number >= records.size()) {
    return reader.Fail(offset, "number of a splits tensor",
                       fmt::format("less than {}", records.size()), fmt::format("{}", number));
  }
  path = records[number].place.spec.path;
}

/// Checks the rules that need the header: places in the payload, and numbers of rows.
void CheckPlaces(HeaderReader& reader, const std::vector<Record>& records,
                 const BatchHeader& header) {
  std::vector<TensorPlace> expected = header.tensors;
  const std::uint64_t payload_bytes = LayOutPayload(expected);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const TensorPlace& place = header.tensors[i];
    if (place.offset != expected[i].offset) {
      reader.Fail(records[i].begin + 32, fmt::format("offset of tensor {}", place.spec.path),
                  fmt::format("{}", expected[i].offset), fmt::format("{}", place.offset));
    }
    const std::uint64_t rows = header.info.RowsOf(place.spec);
    if (place.spec.splits.empty() && place.rows != rows) {
      reader.Fail(records[i].begin + kTensorFixedBytes - 8,
                  fmt::format("rows of tensor {}", place.spec.path), fmt::format("{}", rows),
                  fmt::format("{}", place.rows));
    }
  }
  if (payload_bytes != header.payload_bytes) {
    reader.Fail(24, "payload bytes", fmt::format("{}", payload_bytes),
                fmt::format("{}", header.payload_bytes));
  }
}

Status TakeTensors(HeaderReader& reader, std::uint32_t count, BatchHeader& header) {
  std::vector<Record> records;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) records.push_back(TakeRecord(reader));
  for (Record& record : records) {
    TensorSpec& spec = record.place.spec;
    Resolve(reader, records, record.splits, record.begin + 8, spec.splits);
    Resolve(reader, records, record.node_splits, record.begin + 12, spec.node_splits);
  }
  MILLRACE_RETURN_IF_ERROR(reader.status());
  std::vector<TensorSpec> specs;
  for (const Record& record : records) {
    specs.push_back(record.place.spec);
    header.tensors.push_back(record.place);
  }
  auto edges = CheckTensors(specs, header.info.expand);
  if (!edges.ok()) return DataLoss("batch header: " + edges.status().message());
  header.edges = *std::move(edges);
  CheckPlaces(reader, records, header);
  return reader.status();
}

void TakeExamples(HeaderReader& reader, std::uint32_t examples, std::uint32_t dropped,
                  BatchInfo& info) {
  if (!reader.Need(8 * std::uint64_t{examples}, "example ids")) return;
  info.example_ids.reserve(examples);
  for (std::uint32_t i = 0; i < examples; ++i) {
    info.example_ids.emplace_back(reader.Take<std::uint64_t>("example id"));
  }
  if (!reader.Need(16 * std::uint64_t{dropped}, "dropped examples")) return;
  info.dropped.reserve(dropped);
  for (std::uint32_t i = 0; i < dropped && reader.ok(); ++i) {
    DroppedExample example;
    example.id = ExampleId(reader.Take<std::uint64_t>("id of a dropped example"));
    example.reason = static_cast<DropReason>(
        reader.TakeIn<std::uint64_t>("reason of a dropped example", 1, kDropReasons - 1));
    info.dropped.push_back(example);
  }
}

void TakeLostPieces(HeaderReader& reader, std::uint8_t losses, BatchInfo& info) {
  std::uint64_t left = kMaxRowPieces * info.planned_examples;
  std::uint64_t least = 1;  // the smallest reason that may come next
  for (std::uint8_t i = 0; i < losses && reader.ok(); ++i) {
    const auto reason =
        reader.TakeIn<std::uint64_t>("reason of lost pieces", least, kDropReasons - 1);
    const std::uint64_t offset = reader.at();
    const auto pieces = reader.Take<std::uint64_t>("number of lost pieces");
    if (pieces == 0 || pieces > left) {
      return reader.Fail(offset, "number of lost pieces", fmt::format("1 to {}", left),
                         fmt::format("{}", pieces));
    }
    left -= pieces;
    least = reason + 1;
    info.lost_pieces.push_back({static_cast<DropReason>(reason), pieces});
  }
}

/// Checks what has to be right before anything else is read. Returns the size of the header.
Result<std::uint64_t> CheckFrame(std::span<const std::byte> bytes) {
  HeaderReader reader(bytes, bytes.size());
  const std::string_view magic = reader.TakeBytes("magic", kBatchMagic.size());
  if (magic != kBatchMagic) reader.Fail(0, "magic", kBatchMagic, "other bytes");
  const auto version = reader.Take<std::uint32_t>("format version");
  MILLRACE_RETURN_IF_ERROR(reader.status());
  if (version != kBatchFormatVersion) {
    return Unimplemented(fmt::format(
        "batch header: format version {} at offset 8: expected {}; use the same release on both "
        "sides",
        version, kBatchFormatVersion));
  }
  reader.Take<std::uint32_t>("number of tensors");
  const auto header_bytes =
      reader.TakeIn<std::uint64_t>("header bytes", kFixedBytes + kChecksumBytes,
                                   std::min<std::uint64_t>(bytes.size(), kMaxHeaderBytes));
  if (header_bytes % kTensorAlignment != 0) {
    reader.Fail(16, "header bytes", fmt::format("a multiple of {}", kTensorAlignment),
                fmt::format("{}", header_bytes));
  }
  MILLRACE_RETURN_IF_ERROR(reader.status());
  const std::uint64_t end = header_bytes - kChecksumBytes;
  std::uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + end, sizeof(checksum));
  const std::uint64_t computed = Xxh3_64(bytes.first(end));
  if (checksum != computed) {
    reader.Fail(end, "checksum", fmt::format("{:016x}", computed),
                fmt::format("{:016x}", checksum));
  }
  MILLRACE_RETURN_IF_ERROR(reader.status());
  return header_bytes;
}

}  // namespace

Result<BatchHeader> DecodeHeader(std::span<const std::byte> bytes) {
  MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t header_bytes, CheckFrame(bytes));
  HeaderReader reader(bytes, header_bytes - kChecksumBytes);
  BatchHeader header;
  BatchInfo& info = header.info;
  reader.TakeBytes("magic", kBatchMagic.size());
  reader.Take<std::uint32_t>("format version");
  const auto tensors = reader.TakeIn<std::uint32_t>("number of tensors", 0, kMaxTensors);
  header.header_bytes = reader.Take<std::uint64_t>("header bytes");
  header.payload_bytes = reader.Take<std::uint64_t>("payload bytes");
  for (Digest128* digest : {&info.fingerprint.dataset, &info.fingerprint.pipeline}) {
    digest->high = __builtin_bswap64(reader.Take<std::uint64_t>("fingerprint"));
    digest->low = __builtin_bswap64(reader.Take<std::uint64_t>("fingerprint"));
  }
  info.epoch = reader.Take<std::uint64_t>("epoch");
  info.first_example = reader.Take<std::uint64_t>("first example");
  info.planned_examples = reader.Take<std::uint32_t>("planned examples");
  const auto examples = reader.Take<std::uint32_t>("number of examples");
  const auto dropped = reader.Take<std::uint32_t>("number of dropped examples");
  if (std::uint64_t{examples} + dropped != info.planned_examples) {
    reader.Fail(80, "planned examples",
                fmt::format("{} examples and {} dropped", examples, dropped),
                fmt::format("{}", info.planned_examples));
  }
  info.expand.base_edge_labels =
      reader.TakeIn<std::uint32_t>("base edge labels", 0, kMaxBaseEdgeLabels);
  info.expand.symmetrization = static_cast<Symmetrization>(reader.TakeIn<std::uint8_t>(
      "symmetrization", 0, static_cast<std::uint8_t>(Symmetrization::kBidirectional)));
  info.expand.add_self_edges = reader.TakeIn<std::uint8_t>("self edges", 0, 1) != 0;
  info.expand.merged = reader.TakeIn<std::uint8_t>("merged", 0, 1) != 0;
  const auto losses = reader.TakeIn<std::uint8_t>("number of reasons of lost pieces", 0,
                                                  std::uint8_t{kDropReasons - 1});
  const auto bound = reader.TakeIn<std::uint32_t>("bound of the class", 0, kMaxClassBound + 1);
  if (bound > 0) info.bound = bound - 1;
  TakeExamples(reader, examples, dropped, info);
  TakeLostPieces(reader, losses, info);
  MILLRACE_RETURN_IF_ERROR(reader.status());
  MILLRACE_RETURN_IF_ERROR(TakeTensors(reader, tensors, header));
  if (header_bytes != HeaderBytes(info, header.tensors)) {
    reader.Fail(16, "header bytes", fmt::format("{}", HeaderBytes(info, header.tensors)),
                fmt::format("{}", header_bytes));
  }
  reader.TakeZeros(header_bytes - kChecksumBytes, "padding of the header");
  MILLRACE_RETURN_IF_ERROR(reader.status());
  return header;
}

}  // namespace millrace
