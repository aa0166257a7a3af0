#include "common/batch/layout/batch_header.h"

#include <cstring>
#include <string>
#include <string_view>

#include "common/base/hash.h"
#include "common/batch/layout/batch_header_format.h"

namespace millrace {
namespace {

using internal::kChecksumBytes;
using internal::kFixedBytes;
using internal::kNoTensor;
using internal::RecordBytes;
using internal::RoundUp;

/// Writes values one after another. The caller has made sure that there is room.
class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) {}

  template <class T>
  void Put(T value) {
    std::memcpy(out_.data() + at_, &value, sizeof(value));
    at_ += sizeof(value);
  }
  void PutBytes(std::string_view bytes) {
    std::memcpy(out_.data() + at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  void PutName(std::string_view name) {
    Put(static_cast<std::uint8_t>(name.size()));
    PutBytes(name);
  }
  void ZeroUntil(std::uint64_t end) {
    std::memset(out_.data() + at_, 0, end - at_);
    at_ = end;
  }
  /// Writes 16 bytes, big endian, like Digest128::ToBytes.
  void PutDigest(const Digest128& digest) {
    Put(__builtin_bswap64(digest.high));
    Put(__builtin_bswap64(digest.low));
  }
  std::uint64_t at() const { return at_; }

 private:
  std::span<std::byte> out_;
  std::uint64_t at_ = 0;
};

std::uint32_t NumberOf(std::span<const TensorPlace> tensors, std::string_view path) {
  if (path.empty()) return kNoTensor;
  std::uint32_t i = 0;
  while (tensors[i].spec.path != path) ++i;
  return i;
}

void PutRecord(Writer& writer, std::span<const TensorPlace> tensors, const TensorPlace& place) {
  const std::uint64_t begin = writer.at();
  const std::uint64_t record_bytes = RecordBytes(place);
  const TensorSpec& spec = place.spec;
  writer.Put(static_cast<std::uint8_t>(spec.kind));
  writer.Put(static_cast<std::uint8_t>(spec.dtype));
  writer.Put(static_cast<std::uint8_t>(spec.expansion));
  writer.Put(static_cast<std::uint8_t>(spec.inner.size()));
  writer.Put(static_cast<std::uint32_t>(record_bytes));
  writer.Put(NumberOf(tensors, spec.splits));
  writer.Put(NumberOf(tensors, spec.node_splits));
  writer.Put(spec.min);
  writer.Put(spec.max);
  writer.Put(place.offset);
  writer.Put(place.bytes);
  writer.Put(place.rows);
  for (const std::uint64_t extent : spec.inner) writer.Put(extent);
  writer.PutName(spec.path);
  writer.PutName(spec.dimension);
  writer.ZeroUntil(begin + record_bytes);
}

}  // namespace

std::uint64_t internal::RecordBytes(const TensorPlace& tensor) {
  const TensorSpec& spec = tensor.spec;
  return RoundUp(
      kTensorFixedBytes + 8 * spec.inner.size() + 1 + spec.path.size() + 1 + spec.dimension.size(),
      8);
}

std::uint64_t LayOutPayload(std::span<TensorPlace> tensors) {
  std::uint64_t end = 0;
  for (TensorPlace& tensor : tensors) {
    tensor.offset = end;
    end = RoundUp(end + tensor.bytes, kTensorAlignment);
  }
  return end;
}

std::uint64_t HeaderBytes(const BatchInfo& info, std::span<const TensorPlace> tensors) {
  std::uint64_t bytes = kFixedBytes + 8 * info.example_ids.size() +
                        16 * (info.dropped.size() + info.lost_pieces.size());
  for (const TensorPlace& tensor : tensors) bytes += RecordBytes(tensor);
  return RoundUp(bytes + kChecksumBytes, kTensorAlignment);
}

void EncodeHeader(const BatchInfo& info, std::span<const TensorPlace> tensors,
                  std::uint64_t payload_bytes, std::span<std::byte> out) {
  Writer writer(out);
  writer.PutBytes(internal::kBatchMagic);
  writer.Put(kBatchFormatVersion);
  writer.Put(static_cast<std::uint32_t>(tensors.size()));
  writer.Put(static_cast<std::uint64_t>(out.size()));
  writer.Put(payload_bytes);
  writer.PutDigest(info.fingerprint.dataset);
  writer.PutDigest(info.fingerprint.pipeline);
  writer.Put(info.epoch);
  writer.Put(info.first_example);
  writer.Put(info.planned_examples);
  writer.Put(static_cast<std::uint32_t>(info.example_ids.size()));
  writer.Put(static_cast<std::uint32_t>(info.dropped.size()));
  writer.Put(info.expand.base_edge_labels);
  writer.Put(static_cast<std::uint8_t>(info.expand.symmetrization));
  writer.Put(static_cast<std::uint8_t>(info.expand.add_self_edges));
  writer.Put(static_cast<std::uint8_t>(info.expand.merged));
  writer.Put(static_cast<std::uint8_t>(info.lost_pieces.size()));
  writer.Put(info.bound ? *info.bound + 1 : std::uint32_t{0});
  for (const ExampleId id : info.example_ids) writer.Put(id.value());
  for (const DroppedExample& example : info.dropped) {
    writer.Put(example.id.value());
    writer.Put(static_cast<std::uint64_t>(example.reason));
  }
  for (const LostPieces& lost : info.lost_pieces) {
    writer.Put(static_cast<std::uint64_t>(lost.reason));
    writer.Put(lost.pieces);
  }
  for (const TensorPlace& place : tensors) PutRecord(writer, tensors, place);
  writer.ZeroUntil(out.size() - kChecksumBytes);
  writer.Put(Xxh3_64(out.first(out.size() - kChecksumBytes)));
}

}  // namespace millrace
