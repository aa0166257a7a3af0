#include "server/worker/service/batch_stream.h"

#include <algorithm>
#include <utility>

#include "common/transport/wire.h"

namespace millrace {

void BatchStream::Send(BuildQueue::Outgoing outgoing) {
  outgoing_ = std::move(outgoing);
  offset_ = 0;
  WriteNext();
}

void BatchStream::WriteNext() {
  const std::span<const std::byte> bytes = outgoing_->batch->batch->bytes();
  OutgoingPart out;
  v1::BatchPart& part = out.part;
  part.mutable_lease()->set_term(outgoing_->task.lease.term);
  part.mutable_lease()->set_n(outgoing_->task.lease.n);
  part.mutable_at()->set_epoch(outgoing_->task.at.epoch);
  part.mutable_at()->set_example(outgoing_->task.at.example);
  part.set_total_bytes(bytes.size());
  part.set_offset(offset_);
  part.set_digest(outgoing_->batch->digest);
  part.set_credit_used(outgoing_->credit_used);
  out.data = bytes.subspan(offset_, std::min(bytes.size() - offset_, wire::kMaxPartBytes));
  out.owner = outgoing_->batch;
  offset_ += out.data.size();
  const bool last = offset_ >= bytes.size();
  stream_->Write(std::move(out));
  if (last) outgoing_.reset();
}

void BatchStream::WriteControl(v1::BatchPart part) {
  OutgoingPart out;
  out.part = std::move(part);
  stream_->Write(std::move(out));
}

}  // namespace millrace
