#include "client/session/run/batch_receiver.h"

#include <utility>

#include <fmt/core.h>

#include "client/session/run/batch_counts.h"
#include "common/transport/convert/compression.h"
#include "common/transport/wire.h"

namespace millrace::client {
namespace {

/// Checks what a fragment says of its data before anything is done with them. `left` is how many
/// bytes its batch lacks.
Status CheckData(const IncomingFragment& in, std::uint64_t left) {
  const v1::BatchFragment& fragment = in.message;
  const std::size_t bytes = in.data_bytes();
  if (in.batch_bytes() > left) {
    return DataLoss(fmt::format("a part of {} bytes at offset {} of a batch of {} bytes",
                                in.batch_bytes(), fragment.offset(), fragment.total_bytes()));
  }
  if (fragment.compression() == v1::COMPRESSION_OFF) return OkStatus();
  if (!millrace::FromProto(fragment.compression())) {
    return DataLoss(fmt::format("a part at offset {} with compression {}, which is not known here",
                                fragment.offset(), static_cast<int>(fragment.compression())));
  }
  // An honest worker compresses what is a fragment anyway, and only to fewer bytes.
  if (in.in_place || fragment.raw_bytes() > wire::kMaxFragmentBytes ||
      bytes >= fragment.raw_bytes()) {
    return DataLoss(
        fmt::format("a part at offset {} with {} compressed bytes for {}{}; expected fewer bytes "
                    "for at most {}",
                    fragment.offset(), bytes, fragment.raw_bytes(),
                    in.in_place ? " in shared memory" : "", wire::kMaxFragmentBytes));
  }
  return OkStatus();
}

}  // namespace

Result<BatchReceiver::UnderWay> BatchReceiver::Begin(const IncomingFragment& in, bool wanted,
                                                     std::uint64_t limit_bytes) const {
  const v1::BatchFragment& fragment = in.message;
  UnderWay batch;
  batch.at = millrace::FromProto(fragment.at());
  batch.total = fragment.total_bytes();
  if (fragment.offset() != 0) {
    return DataLoss(
        fmt::format("the first part of a batch is at offset {}, expected 0", fragment.offset()));
  }
  if (batch.total > limit_bytes) {
    return OutOfRange(
        fmt::format("a batch of {} bytes at {}, expected at most {}: make `batch.size` or "
                    "`closure.max_subgraph_size` smaller",
                    batch.total, batch.at.ToString(), limit_bytes));
  }
  MILLRACE_ASSIGN_OR_RETURN(batch.digest, Digest128::FromBytes(fragment.digest()));
  batch.wanted = wanted;
  if (wanted && in.in_place) {
    batch.place = {in.data.front().data(), 0};
  } else if (wanted) {
    MILLRACE_ASSIGN_OR_RETURN(batch.slot, pool_->Acquire(batch.total));
  }
  return batch;
}

Status BatchReceiver::CheckFollows(const UnderWay& batch, const v1::BatchFragment& fragment) {
  if (millrace::FromProto(fragment.at()) != batch.at || fragment.total_bytes() != batch.total ||
      fragment.offset() != batch.received) {
    return DataLoss(fmt::format(
        "a part of the batch at {}, offset {} of {}; expected the batch at {}, offset {} of {}",
        millrace::FromProto(fragment.at()).ToString(), fragment.offset(), fragment.total_bytes(),
        batch.at.ToString(), batch.received, batch.total));
  }
  return OkStatus();
}

Status BatchReceiver::Fill(const IncomingFragment& in, std::span<std::byte> to) {
  if (in.message.compression() == v1::COMPRESSION_OFF) {
    wire::GatherInto(in, to);
    return OkStatus();
  }
  std::span<const std::byte> data = in.data.front();
  if (in.data.size() > 1) {
    gathered_.resize(in.data_bytes());
    wire::GatherInto(in, gathered_);
    data = gathered_;
  }
  return decompressor_.Decompress(*millrace::FromProto(in.message.compression()), data, to);
}

Result<std::optional<ReceivedBatch>> BatchReceiver::OnFragment(const IncomingFragment& in,
                                                               bool wanted,
                                                               std::uint64_t limit_bytes) {
  if (!under_way_) {
    Result<UnderWay> begun = Begin(in, wanted, limit_bytes);
    if (!begun.ok()) {
      return begun.status().code() == StatusCode::kInvalidArgument
                 ? DataLoss("a part of a batch: " + begun.status().message())
                 : begun.status();
    }
    under_way_.emplace(std::move(begun).value());
  } else {
    MILLRACE_RETURN_IF_ERROR(CheckFollows(*under_way_, in.message));
  }
  UnderWay& batch = *under_way_;
  MILLRACE_RETURN_IF_ERROR(CheckData(in, batch.total - batch.received));
  const std::uint64_t bytes = in.batch_bytes();
  if (batch.place.data() != nullptr) {
    const std::byte* const end = batch.place.data() + batch.place.size();
    if (!in.in_place || in.data.front().data() != end) {
      return DataLoss(
          fmt::format("a part of a batch in place at offset {} lies elsewhere", batch.received));
    }
    batch.place = {batch.place.data(), batch.place.size() + bytes};
    batch.owners.push_back(in.owner);
    batch.hash.Update(in.data.front());
  } else if (batch.slot != nullptr) {
    const std::span<std::byte> place = batch.slot->bytes().subspan(batch.received, bytes);
    MILLRACE_RETURN_IF_ERROR(Fill(in, place));
    batch.wire_bytes += in.data_bytes();
    // The bytes are hashed while they are still in the cache.
    batch.hash.Update(place);
  }
  batch.received += bytes;
  if (batch.received < batch.total) return std::optional<ReceivedBatch>();
  UnderWay done = std::move(batch);
  under_way_.reset();
  if (!done.wanted) return std::optional<ReceivedBatch>();
  return Finish(std::move(done));
}

Result<std::optional<ReceivedBatch>> BatchReceiver::Finish(UnderWay batch) const {
  if (const Digest128 got = batch.hash.Finish(); got != batch.digest) {
    return DataLoss(fmt::format("a batch at {} with digest {}, expected {}", batch.at.ToString(),
                                got.ToHex(), batch.digest.ToHex()));
  }
  ReceivedBatch received;
  received.arrival.in_place = batch.slot == nullptr;
  if (batch.slot != nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(
        received.batch, PackedBatch::Parse(std::shared_ptr<const Buffer>(std::move(batch.slot)),
                                           static_cast<std::size_t>(batch.total)));
  } else {
    using Owners = std::vector<std::shared_ptr<const void>>;
    MILLRACE_ASSIGN_OR_RETURN(
        received.batch,
        PackedBatch::Parse(batch.place, std::make_shared<const Owners>(std::move(batch.owners))));
  }
  const BatchInfo& info = received.batch->info();
  received.arrival.at = batch.at;
  received.arrival.digest = batch.digest;
  received.arrival.bytes = batch.total;
  received.arrival.wire_bytes = batch.wire_bytes;
  received.arrival.fingerprint = info.fingerprint;
  received.arrival.epoch = info.epoch;
  received.arrival.first_example = info.first_example;
  received.arrival.planned_examples = info.planned_examples;
  received.arrival.counts = CountsOf(*received.batch, token_tensor_);
  return std::optional<ReceivedBatch>(std::move(received));
}

}  // namespace millrace::client
