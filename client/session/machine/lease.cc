#include "client/session/machine/lease.h"

namespace millrace::client {

void ToProto(const Shard& shard, v1::Shard* to) {
  to->set_epoch(shard.at.epoch);
  to->set_position(shard.at.example);
  to->set_stride(shard.stride);
  to->set_first_example(shard.first_example);
  to->set_examples(shard.examples);
  to->set_batches(shard.batches);
}

void ToProto(const Lease& lease, v1::Lease* to) {
  ToProto(lease.id, to->mutable_id());
  ToProto(lease.shard, to->mutable_shard());
  ToProto(lease.worker.id, to->mutable_worker()->mutable_id());
  to->mutable_worker()->set_address(lease.worker.address);
  to->mutable_worker()->set_host_id(lease.worker.host_id);
  to->mutable_worker()->set_unix_socket(lease.worker.unix_socket);
  to->set_copy(lease.copy);
}

WorkerAddress FromProto(const v1::WorkerRef& worker) {
  return {FromProto(worker.id()), worker.address(), worker.host_id(), worker.unix_socket()};
}

Lease FromProto(const v1::Lease& lease) {
  const v1::Shard& shard = lease.shard();
  return {
      FromProto(lease.id()),
      {PositionOf(shard), shard.stride(), shard.first_example(), shard.examples(), shard.batches()},
      FromProto(lease.worker()),
      lease.copy()};
}

}  // namespace millrace::client
