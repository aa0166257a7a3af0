// Batches of random tensors with random programs over them, for tests that compare one way of
// computing tensors with another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/batch/batch.h"
#include "common/batch/layout/layout.h"
#include "common/expand/delivery.h"
#include "common/operations/consumer_program.h"
#include "tests/unit/common/batch/model_batch.h"

namespace millrace::test {

struct RandomProgram {
  std::vector<TensorSpec> tensors;
  std::shared_ptr<const PackedBatch> packed;
  TensorGraphText text;
};

struct RandomProgramOptions {
  std::size_t rows = 12;
  std::int64_t longest = 6;     // elements of a row of a ragged tensor
  std::size_t definitions = 8;  // at most
  bool host_operations = true;  // also those that only the host can do
  bool wrong_values = true;     // now and then, one that an operation refuses
};

/// Equal seeds give equal programs.
RandomProgram MakeRandomProgram(std::uint64_t seed, BufferPool& pool,
                                const RandomProgramOptions& options = {});

/// A program over the tensors of a batch. `rows` and `longest` mean nothing.
RandomProgram MakeRandomProgram(std::uint64_t seed, const ModelBatch& batch, BufferPool& pool,
                                const RandomProgramOptions& options = {});

/// A delivery of the program's outputs with `pad.graph`. The first tensors, as many as the pad's
/// numbers happen to say, are the source's, and a worker has computed the others.
Result<Delivery> PaddedDelivery(const RandomProgram& program, DType index_dtype,
                                const GraphPad& pad);

/// The program for people, when a test has failed.
std::string Describe(const RandomProgram& program);

}  // namespace millrace::test
