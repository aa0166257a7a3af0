// Batches and tensors as Python sees them: views over the memory that the session delivered into.
//
// A Tensor keeps its batch alive. It counts as a holder of the batch as long as Python or a
// framework has the Tensor: numpy and DLPack keep the Tensor itself.
//
// A forked process must not touch the locks of its parent's sessions. It therefore never gives back
// the batches that it inherited.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "common/batch/batch.h"
#include "common/batch/layout/drop_reasons.h"
#include "common/epoch/position.h"

namespace millrace::python {

/// The place that a batch comes from.
struct BatchPlace {
  Position position;
  std::uint64_t step = 0;
  std::uint64_t ordinal = 0;
  std::uint32_t rank = 0;
};

/// A batch, or one micro-batch of it, that Python holds.
class HeldBatch {
 public:
  /// `owner` keeps `tensors` and `info` alive. `packed` is the packed form of the whole batch, or
  /// null. The batch comes in `micro` micro-batches, and this object is one of them. `drop_reasons`
  /// has the names of the reasons for which `info` lists examples as dropped.
  HeldBatch(std::shared_ptr<const void> owner, const std::vector<DeliveredTensor>& tensors,
            const BatchInfo& info, std::shared_ptr<const PackedBatch> packed,
            const BatchPlace& place, std::uint32_t micro, DropReasonNames drop_reasons);
  ~HeldBatch();
  HeldBatch(const HeldBatch&) = delete;
  HeldBatch& operator=(const HeldBatch&) = delete;

  const std::vector<DeliveredTensor>& tensors() const { return tensors_; }
  const BatchInfo& info() const { return info_; }
  const std::shared_ptr<const PackedBatch>& packed() const { return packed_; }
  const BatchPlace& place() const { return place_; }
  std::uint32_t micro() const { return micro_; }
  const DropReasonNames& drop_reasons() const { return drop_reasons_; }

  /// The tensors that are held besides the batch itself: Lend adds one, TakeBack removes one, and
  /// lent() gives their paths. Any thread may call these.
  void Lend(const std::string& path);
  void TakeBack(const std::string& path);
  std::vector<std::string> lent() const;

 private:
  std::shared_ptr<const void> owner_;
  const std::vector<DeliveredTensor>& tensors_;
  const BatchInfo& info_;
  std::shared_ptr<const PackedBatch> packed_;
  const BatchPlace place_;
  const std::uint32_t micro_;
  const DropReasonNames drop_reasons_;
  const pid_t process_;
  mutable std::mutex mutex_;
  std::map<std::string, int> lent_;  // by path
};

/// Registers Tensor and Batch.
void BindBatch(nanobind::module_& module);

/// A path as Python gives it: text, bytes or os.PathLike.
std::string ReadPath(nanobind::handle path);

/// A Python Batch.
nanobind::object MakeBatch(std::shared_ptr<HeldBatch> held);

}  // namespace millrace::python
