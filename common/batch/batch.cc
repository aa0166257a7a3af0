#include "common/batch/batch.h"

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/batch/layout/batch_header.h"
#include "common/batch/layout/integer_visit.h"

namespace millrace {
namespace {

/// Says what is wrong with a splits tensor that cuts `rows` rows. Empty if nothing is wrong.
template <class T>
std::string CheckSplits(std::span<const T> splits, std::uint64_t rows) {
  if (splits.front() != 0) return fmt::format("begin with {}, expected 0", splits.front());
  bool ascend = true;
  for (std::size_t i = 1; i < splits.size(); ++i) ascend &= splits[i - 1] <= splits[i];
  if (!ascend) {
    std::size_t i = 1;
    while (splits[i - 1] <= splits[i]) ++i;
    return fmt::format("fall from {} to {} at row {}", splits[i - 1], splits[i], i);
  }
  if (static_cast<std::uint64_t>(splits.back()) != rows) {
    return fmt::format("end with {}, expected {}", splits.back(), rows);
  }
  return {};
}

Status CheckPayload(const BatchHeader& header, std::span<const std::byte> payload) {
  for (const TensorPlace& tensor : header.tensors) {
    const std::uint64_t end = tensor.offset + tensor.bytes;
    for (std::uint64_t i = end; i % kTensorAlignment != 0; ++i) {
      if (payload[i] != std::byte{0}) {
        return DataLoss(
            fmt::format("batch: padding after tensor {} at offset {} of the payload is "
                        "not 0",
                        tensor.spec.path, i));
      }
    }
    if (tensor.spec.splits.empty()) continue;
    for (const TensorPlace& splits : header.tensors) {
      if (splits.spec.path != tensor.spec.splits) continue;
      const auto bytes = payload.subspan(splits.offset, splits.bytes);
      const std::string wrong = internal::VisitInteger(splits.spec.dtype, [&](auto zero) {
        return CheckSplits(internal::ValuesAs<decltype(zero)>(bytes), tensor.rows);
      });
      if (!wrong.empty()) {
        return DataLoss(
            fmt::format("batch: tensor {} at offset {} of the payload, which cuts {}: "
                        "its values {}",
                        splits.spec.path, splits.offset, tensor.spec.path, wrong));
      }
    }
  }
  return OkStatus();
}

}  // namespace

Result<std::shared_ptr<const PackedBatch>> PackedBatch::Parse(std::span<const std::byte> bytes,
                                                              std::shared_ptr<const void> owner) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kTensorAlignment != 0) {
    return Internal(
        fmt::format("batch: its bytes have to lie at a multiple of {}", kTensorAlignment));
  }
  MILLRACE_ASSIGN_OR_RETURN(BatchHeader header, DecodeHeader(bytes));
  if (bytes.size() - header.header_bytes != header.payload_bytes) {
    return DataLoss(fmt::format("batch: expected {} bytes of payload after {} of header, got {}",
                                header.payload_bytes, header.header_bytes,
                                bytes.size() - header.header_bytes));
  }
  MILLRACE_RETURN_IF_ERROR(CheckPayload(header, bytes.subspan(header.header_bytes)));
  return std::shared_ptr<const PackedBatch>(
      new PackedBatch(std::move(header.info), std::move(header.tensors), std::move(header.edges),
                      header.header_bytes, bytes, std::move(owner), std::nullopt));
}

Result<std::shared_ptr<const PackedBatch>> PackedBatch::Parse(std::shared_ptr<const Buffer> buffer,
                                                              std::size_t size) {
  if (size > buffer->size()) {
    return Internal(fmt::format("batch: {} bytes of a buffer of {}", size, buffer->size()));
  }
  const std::span<const std::byte> bytes = buffer->bytes().first(size);
  return Parse(bytes, std::move(buffer));
}

std::optional<std::size_t> PackedBatch::Find(std::string_view path) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].spec.path == path) return i;
  }
  return std::nullopt;
}

std::span<const std::byte> PackedBatch::tensor_bytes(std::size_t tensor) const {
  return payload().subspan(tensors_[tensor].offset, tensors_[tensor].bytes);
}

std::int64_t PackedBatch::ValueAt(std::size_t tensor, std::size_t element) const {
  return internal::LoadValue(tensor_bytes(tensor).data(), tensors_[tensor].spec.dtype, element);
}

Digest128 PackedBatch::payload_hash() const { return Xxh3(payload()); }

Digest128 PackedBatch::digest() const { return digest_ ? *digest_ : Xxh3(bytes_); }

std::int64_t DeliveredTensor::ValueAt(std::size_t element) const {
  return internal::LoadValue(data, dtype, element);
}

const DeliveredTensor* DeliveredBatch::Find(std::string_view path) const {
  for (const DeliveredTensor& tensor : tensors_) {
    if (tensor.path == path) return &tensor;
  }
  return nullptr;
}

}  // namespace millrace
