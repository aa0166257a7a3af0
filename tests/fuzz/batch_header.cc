// A packed batch as it comes from a network or a file: header, tensors, expansion, saved batches.
//
// Byte 0 of an input is a set of flags. 1: the header's checksum is made right. 2: the rest is read
// as a file of `millrace batch`, and its digest is made right.
#include "common/batch/layout/batch_header.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/batch/batch.h"
#include "common/expand/expand.h"
#include "common/expand/expand_program.h"
#include "common/operands/operands.h"
#include "common/operations/consumer_program.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/unit/common/batch/model_batch.h"
#include "tests/unit/common/expand/device_run.h"
#include "tests/unit/server/state/temporary_folder.h"

namespace millrace::fuzz {
namespace {

constexpr std::uint8_t kResealHeader = 1;
constexpr std::uint8_t kAsFile = 2;
// The expanded form may be much larger than the packed bytes: self edges and int64 widen them a few
// times each.
constexpr std::uint64_t kMostExpanded = 100;
constexpr std::uint64_t kMostComputed = 1 << 24;
constexpr GraphPad kPad = {300, 1000, 20};

/// Checks that the host's expansion and the kernel's are equal, and that both stay in their memory.
/// REQUIRES: the delivery computes nothing.
void ExpandBoth(const PackedBatch& batch, const Delivery& delivery, std::optional<RowRange> rows,
                BufferPool& pool) {
  const auto layout = LayOutExpanded(batch, delivery, rows);
  if (!layout.ok()) return;
  if (delivery.graph_pad()) {
    if (layout->bytes > kMostComputed) return;
  } else {
    Require(layout->bytes <= kMostExpanded * (batch.bytes().size() + 64),
            "an expanded batch is bounded by the packed one");
  }
  const std::shared_ptr<Buffer> host = pool.Acquire(layout->bytes).value();
  const std::shared_ptr<Buffer> device = pool.Acquire(layout->bytes).value();
  std::memset(host->data(), 0x5a, host->size());
  std::memset(device->data(), 0x5a, device->size());
  const Status expanded = ExpandInto(batch, *layout, host->bytes());

  ExpandProgram program = MakeExpandProgram(batch, *layout);
  std::uint32_t error = 0;
  kernel::Launch launch = program.launch;
  launch.payload = reinterpret_cast<const unsigned char*>(batch.payload().data());
  launch.out = reinterpret_cast<unsigned char*>(device->data());
  launch.tasks = program.tasks.data();
  launch.error = &error;
  RunOnHost(launch);
  Require((error != 0) == !expanded.ok(), "host and kernel agree on what can be expanded");
  if (!expanded.ok()) {
    Require(WhatIsWrong(batch, *layout) == expanded, "the kernel's error has the host's words");
    return;
  }
  Require(std::memcmp(host->data(), device->data(), layout->bytes) == 0,
          "host and kernel expand to the same bytes");
  const auto view = ViewExpanded(batch, *layout, host->bytes(), host);
  for (const DeliveredTensor& tensor : view->tensors()) {
    if (tensor.bytes > 0 && IsInteger(tensor.dtype)) static_cast<void>(tensor.ValueAt(0));
  }
}

/// Pads the graphs of a batch, which may not fit.
void PadGraphs(const PackedBatch& batch, BufferPool& pool) {
  std::vector<TensorSpec> tensors;
  for (const TensorPlace& place : batch.tensors()) tensors.push_back(place.spec);
  ConsumerProgram program;
  program.graph_pad = kPad;
  const auto delivery = Delivery::Make(tensors, std::move(program), DType::kInt32);
  if (!delivery.ok()) return;
  ExpandBoth(batch, *delivery, std::nullopt, pool);
  ExpandBoth(batch, *delivery, RowsOfMicroBatch(batch.examples(), 1, 2), pool);
}

/// A program that reads every tensor which operations can read, and pads the ragged ones. Devices
/// cannot stack.
TensorGraphText ReadAll(const std::vector<TensorSpec>& tensors) {
  TensorGraphText program;
  program.outputs.emplace();
  for (const Operand& operand : OperandsOf(tensors)) {
    if (!operand.source.unreadable.empty()) continue;
    const std::string name = fmt::format("computed_{}", operand.tensor);
    program.definitions.push_back({name,
                                   "cast",
                                   {operand.source.name},
                                   Params({{"dtype", std::string("float64")}})});
    program.outputs->push_back(name);
    if (IsInteger(operand.source.type.dtype)) {
      const std::string hot = fmt::format("hot_{}", operand.tensor);
      program.definitions.push_back(
          {hot, "one_hot", {operand.source.name}, Params({{"depth", std::int64_t{3}}})});
      if (operand.tensor % 3 == 0) program.outputs->push_back(hot);
    }
    if (operand.tensor % 4 == 1 && operand.source.type.inner.size() < kMaxInnerAxes) {
      const std::string both = fmt::format("both_{}", operand.tensor);
      program.definitions.push_back(
          {both,
           "stack",
           {operand.source.name, operand.source.name},
           Params({{"axis", std::int64_t{operand.source.type.ragged ? 2 : 1}}})});
      program.outputs->push_back(both);
    }
    if (operand.source.type.ragged && operand.tensor % 2 == 0) program.pads[name];
  }
  return program;
}

/// Checks that a device computes what the host has computed, or finds the same batches wrong, and
/// that it stays in its memory.
void ComputeOnDevice(const PackedBatch& batch, const ExpandLayout& layout, const Status& expected,
                     std::span<const std::byte> host) {
  if (layout.computed.empty()) return;
  test::DeviceRun run(batch, layout);
  const Status status = run.Run();
  Require((status.ok() && !run.error()) == expected.ok(),
          "host and device agree on what can be computed");
  Require(!run.wrote_outside(), "a device stays in its memory");
  if (!expected.ok()) {
    Require(WhatIsWrong(batch, layout) == expected, "a device's error has the host's words");
    return;
  }
  Require(std::equal(host.begin(), host.end(), run.bytes().begin(), run.bytes().end()),
          "host and device compute the same bytes");
}

/// Computes tensors of a batch whose values may be anything. Padding may ask for any size.
void Compute(const PackedBatch& batch, std::optional<GraphPad> pad, BufferPool& pool) {
  std::vector<TensorSpec> tensors;
  for (const TensorPlace& place : batch.tensors()) tensors.push_back(place.spec);
  ConsumerProgram program = ReadAll(tensors);
  if (program.text.outputs->empty()) return;
  program.graph_pad = pad;
  const auto delivery = Delivery::Make(tensors, std::move(program), DType::kInt32);
  if (!delivery.ok()) return;
  for (const RowRange rows :
       {RowRange{0, batch.examples()}, RowsOfMicroBatch(batch.examples(), 1, 2)}) {
    const auto layout = LayOutExpanded(batch, *delivery, rows);
    if (!layout.ok() || layout->bytes > kMostComputed) continue;
    const std::shared_ptr<Buffer> out = pool.Acquire(layout->bytes).value();
    const Status expanded = ExpandInto(batch, *layout, out->bytes());
    ComputeOnDevice(batch, *layout, expanded, out->bytes());
    if (!expanded.ok()) continue;
    const auto delivered = ViewExpanded(batch, *layout, out->bytes(), out);
    for (const DeliveredTensor& tensor : delivered->tensors()) {
      if (tensor.kind == TensorKind::kSplits) {
        Require(tensor.ValueAt(0) == 0, "splits of a computed tensor count from 0");
      }
    }
  }
}

void Use(const PackedBatch& batch, BufferPool& pool) {
  std::vector<std::byte> again(batch.header().size());
  EncodeHeader(batch.info(), batch.tensors(), batch.payload().size(), again);
  Require(std::memcmp(again.data(), batch.bytes().data(), again.size()) == 0,
          "a header has one encoding");
  for (std::size_t t = 0; t < batch.tensors().size(); ++t) {
    const DType dtype = batch.tensors()[t].spec.dtype;
    const std::size_t elements = batch.tensor_bytes(t).size() / DTypeSize(dtype);
    if (elements > 0 && IsInteger(dtype)) static_cast<void>(batch.ValueAt(t, elements - 1));
    Require(batch.Find(batch.tensors()[t].spec.path) == t, "a tensor is found by its path");
  }
  for (const DType index_dtype : {DType::kInt32, DType::kInt64}) {
    ExpandBoth(batch, index_dtype, std::nullopt, pool);
    ExpandBoth(batch, index_dtype, RowsOfMicroBatch(batch.examples(), 1, 2), pool);
  }
  PadGraphs(batch, pool);
  Compute(batch, std::nullopt, pool);
  Compute(batch, kPad, pool);
}

void ReadFile(std::string_view bytes, BufferPool& pool) {
  static const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "batch").string();
  std::ofstream(path, std::ios::binary) << bytes;
  const auto batch = ReadBatchFile(path, pool);
  if (batch.ok()) Use(**batch, pool);
}

std::string TextOf(const PackedBatch& batch) {
  return {reinterpret_cast<const char*>(batch.bytes().data()), batch.bytes().size()};
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  fuzz::Input in(data, size);
  const std::uint8_t how = in.Byte();
  const std::string_view bytes = in.rest();
  BufferPool pool(0);
  const std::shared_ptr<Buffer> buffer = pool.Acquire(bytes.size()).value();
  std::memcpy(buffer->data(), bytes.data(), bytes.size());
  if ((how & fuzz::kResealHeader) != 0 && bytes.size() >= 24) {
    std::uint64_t header_bytes = 0;  // comes after magic and version
    std::memcpy(&header_bytes, buffer->data() + 16, sizeof(header_bytes));
    if (header_bytes >= 8 && header_bytes <= bytes.size()) {
      test::ResealHeader(buffer->bytes().first(header_bytes));
    }
  }
  if ((how & fuzz::kAsFile) != 0) {
    if (bytes.size() >= 32 && bytes.size() % kTensorAlignment == 32) {
      const std::string digest = Xxh3(buffer->bytes().first(bytes.size() - 32)).ToBytes();
      std::memcpy(buffer->data() + bytes.size() - 16, digest.data(), digest.size());
    }
    fuzz::ReadFile({reinterpret_cast<const char*>(buffer->data()), bytes.size()}, pool);
    return 0;
  }
  static_cast<void>(DecodeHeader(buffer->bytes()));
  const auto batch = PackedBatch::Parse(buffer, bytes.size());
  if (batch.ok()) fuzz::Use(**batch, pool);
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  BufferPool pool;
  std::vector<std::string> seeds;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const auto batch = test::Pack(test::RandomBatch(seed, static_cast<int>(seed % 8)), pool);
    seeds.push_back(std::string(1, kResealHeader) + TextOf(*batch));
    if (seed % 8 != 3) continue;
    const test::TemporaryFolder folder;
    const std::string path = (folder.path() / "batch").string();
    if (!WriteBatchFile(*batch, path).ok()) continue;
    std::ifstream file(path, std::ios::binary);
    seeds.push_back(std::string(1, kResealHeader | kAsFile) +
                    std::string(std::istreambuf_iterator<char>(file), {}));
  }
  return seeds;
}
