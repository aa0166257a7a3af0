// Replaces server/worker/service/builder.cc in the test program millraced_wrong_copies. It is the
// same builder, but each batch takes 20 ms more, and it changes a byte of every third batch, makes
// its digest anew, and prints which batches it changed. With MILLRACE_TEST_RIGHT set it changes
// none.

#define MakeBuilt MakeRight
#include "server/worker/service/builder.cc"
#undef MakeBuilt

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "common/base/hash.h"

namespace millrace {

Result<std::shared_ptr<const BuiltBatch>> MakeBuilt(
    const BuildQueue::Task& task, Result<std::shared_ptr<const PackedBatch>> made,
    bool mostly_python) {
  static std::atomic<unsigned> built{0};
  static const bool changes = std::getenv("MILLRACE_TEST_RIGHT") == nullptr;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  auto right = MakeRight(task, std::move(made), mostly_python);
  if (!right.ok() || !changes || built++ % 3 != 0) return right;
  const PackedBatch& batch = *(*right)->batch;
  const std::span<const std::byte> labels = batch.tensor_bytes(*batch.Find("node_label"));
  if (labels.empty()) return right;
  // Nobody else has seen the batch yet, so it may be changed.
  *const_cast<std::byte*>(labels.data()) ^= std::byte{1};
  auto wrong = std::make_shared<BuiltBatch>(**right);
  wrong->digest = Xxh3(batch.bytes()).ToBytes();
  std::fprintf(stderr, "changed epoch %llu, place %llu\n",
               static_cast<unsigned long long>(task.at.epoch),
               static_cast<unsigned long long>(task.range.first));
  return std::shared_ptr<const BuiltBatch>(std::move(wrong));
}

}  // namespace millrace
