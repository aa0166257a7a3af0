#include "tests/bench/device_computed.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/base/hash.h"
#include "common/batch/batch_writer.h"
#include "common/expand/device_computation.h"
#include "common/expand/expand.h"
#include "tests/bench/device_work.h"

namespace millrace::bench {
namespace {

using Ints = std::vector<std::int64_t>;

/// A pipeline of one tensor. All of it is random bytes, which suit every operation here.
struct Case {
  std::string name;
  DType dtype;
  std::vector<std::uint64_t> inner;
  std::uint64_t elements;  // of a row, at most; 0: the tensor is not ragged
  std::vector<TensorDefinition> definitions;
  std::string output;
  bool pad = false;
};

TensorDefinition Define(std::string name, std::string operation, std::string input,
                        std::map<std::string, ParamValue> params) {
  return {std::move(name),
          std::move(operation),
          {std::move(input)},
          Params(std::move(params))};
}

std::vector<Case> Cases() {
  const std::string float32 = "float32";
  Ints planes;
  for (std::int64_t i = 0; i < 24; ++i) planes.push_back(i / 6 + 4 * (i % 6));
  return {
      {"chess board",
       DType::kUint8,
       {194},
       0,
       {Define("bits", "bits", "x", {}),
        Define("part", "slice", "bits", {{"range", Ints{0, 1536}}, {"shape", Ints{8, 8, 24}}}),
        Define("board", "take", "part",
               {{"axis", std::int64_t{-1}}, {"index", planes}, {"dtype", float32}})},
       "board"},
      {"image, channels first",
       DType::kUint8,
       {32, 32, 3},
       0,
       {Define("turned", "transpose", "x", {{"axes", Ints{0, 3, 1, 2}}}),
        Define("image", "cast", "turned",
               {{"scale", 1.0 / 255}, {"offset", -0.5}, {"dtype", float32}})},
       "image"},
      {"a part of rows",
       DType::kFloat32,
       {256},
       0,
       {Define("part", "slice", "x", {{"range", Ints{64, 192}}})},
       "part"},
      {"one_hot of 64",
       DType::kUint8,
       {16},
       0,
       {Define("small", "cast", "x", {{"dtype", std::string("bool")}}),
        Define("number", "cast", "small", {{"dtype", std::string("uint8")}}),
        Define("hot", "one_hot", "number", {{"depth", std::int64_t{64}}})},
       "hot"},
      {"ragged rows, padded", DType::kFloat32, {80}, 64, {}, "x", true},
  };
}

std::vector<TensorSpec> TensorsOf(const Case& c) {
  TensorSpec spec;
  spec.path = "x";
  spec.dtype = c.dtype;
  spec.dimension = c.elements == 0 ? "batch" : "x";
  spec.inner = c.inner;
  spec.expansion = Expansion::kKeep;
  if (IsInteger(c.dtype)) {
    spec.min = DTypeMin(c.dtype);
    spec.max = DTypeMax(c.dtype);
  }
  if (c.elements == 0) return {spec};
  spec.kind = TensorKind::kRaggedValues;
  spec.splits = "x_splits";
  TensorSpec splits;
  splits.path = spec.splits;
  splits.kind = TensorKind::kSplits;
  splits.dtype = DType::kUint32;
  splits.max = DTypeMax(splits.dtype);
  splits.dimension = "batch+1";
  return {spec, splits};
}

Result<std::shared_ptr<const PackedBatch>> PackCase(const Case& c, std::uint32_t rows,
                                                    BufferPool& pool) {
  MILLRACE_ASSIGN_OR_RETURN(BatchWriter writer, BatchWriter::Create(TensorsOf(c), {}, pool));
  writer.Begin({}, 0, 0, rows);
  std::mt19937_64 random(9);
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::span<std::byte> room =
        writer.AppendRows(0, c.elements == 0 ? 1 : random() % (c.elements + 1));
    for (std::byte& byte : room) byte = static_cast<std::byte>(random());
    writer.EndExample(ExampleId(row));
  }
  return writer.Seal();
}

Result<Delivery> DeliveryOf(const Case& c) {
  TensorGraphText text;
  text.definitions = c.definitions;
  text.outputs = {{c.output}};
  if (c.pad) text.pads[c.output] = {};
  return Delivery::Make(TensorsOf(c), std::move(text), DType::kInt32);
}

/// Seconds of the kernel's launches for a batch that the device has.
Result<double> KernelSeconds(Machine& machine, Device& device, const PackedBatch& packed,
                             const ExpandLayout& layout, std::uint32_t rounds) {
  const std::shared_ptr<Accelerator> accelerator = machine.accelerator();
  const DeviceComputation computation(*layout.computation);
  MILLRACE_ASSIGN_OR_RETURN(const ComputeProgram program, computation.ProgramFor(packed, layout));
  BufferPool pool(0, device.receive_memory());
  std::vector<std::unique_ptr<DeviceMemory>> memory;
  std::vector<std::shared_ptr<Buffer>> staged;
  const auto room = [&](std::size_t bytes) -> Result<unsigned char*> {
    memory.push_back(std::make_unique<DeviceMemory>(accelerator, bytes + 1));
    if (memory.back()->data() == nullptr) return ResourceExhausted("no device memory");
    return reinterpret_cast<unsigned char*>(memory.back()->data());
  };
  const auto copied = [&](std::span<const std::byte> bytes) -> Result<unsigned char*> {
    MILLRACE_ASSIGN_OR_RETURN(unsigned char* const to, room(bytes.size()));
    MILLRACE_ASSIGN_OR_RETURN(staged.emplace_back(), pool.Acquire(bytes.size()));
    if (!bytes.empty()) std::memcpy(staged.back()->data(), bytes.data(), bytes.size());
    MILLRACE_RETURN_IF_ERROR(
        accelerator->CopyIn(reinterpret_cast<std::byte*>(to), staged.back()->bytes()));
    return to;
  };
  kernel::ComputeLaunch launch;
  MILLRACE_ASSIGN_OR_RETURN(launch.payload, copied(packed.payload()));
  MILLRACE_ASSIGN_OR_RETURN(launch.constants, copied(computation.constants()));
  MILLRACE_ASSIGN_OR_RETURN(launch.tables, copied(std::as_bytes(std::span(program.tables))));
  MILLRACE_ASSIGN_OR_RETURN(const unsigned char* const tasks,
                            copied(std::as_bytes(std::span(program.tasks))));
  launch.tasks = reinterpret_cast<const kernel::ComputeTask*>(tasks);
  MILLRACE_ASSIGN_OR_RETURN(launch.scratch, room(program.scratch_bytes));
  // Two outputs are written in turn, so that neither stays in the device's cache.
  MILLRACE_ASSIGN_OR_RETURN(unsigned char* const a, room(layout.bytes));
  MILLRACE_ASSIGN_OR_RETURN(unsigned char* const b, room(layout.bytes));
  MILLRACE_ASSIGN_OR_RETURN(const auto error, pool.Acquire(sizeof(std::uint32_t)));
  std::memset(error->data(), 0, error->size());
  launch.error = reinterpret_cast<std::uint32_t*>(error->data());
  return Queued(*accelerator, rounds, [&](std::uint32_t i) -> Status {
    launch.out = i % 2 == 0 ? a : b;
    for (const ComputeProgram::Level& level : program.levels) {
      MILLRACE_RETURN_IF_ERROR(accelerator->Compute(LaunchOf(level, launch)));
    }
    return OkStatus();
  });
}

/// Seconds of computing a batch on the host and copying it to the device.
Result<double> HostSeconds(Machine& machine, Device& device, const PackedBatch& packed,
                           const ExpandLayout& layout, std::uint32_t rounds) {
  const std::shared_ptr<Accelerator> accelerator = machine.accelerator();
  BufferPool pool(std::size_t{1} << 30, device.receive_memory());
  MILLRACE_ASSIGN_OR_RETURN(const auto host, pool.Acquire(layout.bytes));
  const DeviceMemory to(accelerator, layout.bytes);
  if (to.data() == nullptr) return ResourceExhausted("no device memory");
  return Queued(*accelerator, rounds, [&](std::uint32_t) -> Status {
    MILLRACE_RETURN_IF_ERROR(ExpandInto(packed, layout, host->bytes()));
    MILLRACE_RETURN_IF_ERROR(accelerator->CopyIn(to.data(), host->bytes()));
    return WaitForAll(*accelerator);  // the host writes to the same memory again
  });
}

Status BenchCase(const Case& c, Machine& machine, Device& device, std::uint32_t rows,
                 std::uint32_t rounds, const Report& report) {
  BufferPool received(std::size_t{1} << 30, device.receive_memory());
  MILLRACE_ASSIGN_OR_RETURN(const auto packed, PackCase(c, rows, received));
  MILLRACE_ASSIGN_OR_RETURN(const Delivery delivery, DeliveryOf(c));
  const RowRange all{0, packed->examples()};
  MILLRACE_ASSIGN_OR_RETURN(const ExpandLayout layout, LayOutExpanded(*packed, delivery));
  BufferPool pool;
  MILLRACE_ASSIGN_OR_RETURN(const auto expected, Expand(*packed, delivery, pool));
  {
    MILLRACE_ASSIGN_OR_RETURN(const auto delivered, device.Expand(packed, delivery, all));
    MILLRACE_ASSIGN_OR_RETURN(const auto bytes, machine.Fetch(delivered->bytes()));
    if (Xxh3(bytes) != Xxh3(expected->bytes())) {
      return Internal(fmt::format("{}: the device's bytes differ from the host's", c.name));
    }
  }
  const Figure::Params params = {{"batch", std::to_string(rows)}};
  MILLRACE_ASSIGN_OR_RETURN(const double kernel,
                            KernelSeconds(machine, device, *packed, layout, rounds));
  MILLRACE_ASSIGN_OR_RETURN(const double limit, machine.MemoryLimit(layout.bytes));
  const double moved = static_cast<double>(packed->payload().size() + layout.bytes);
  report.Add({fmt::format("{}: kernel, bytes", c.name), moved / kernel / 1e9, "GB/s",
              "a copy within the device's memory", limit, params});
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < rounds; ++i) {
    MILLRACE_RETURN_IF_ERROR(device.Expand(packed, delivery, all).status());
  }
  const double whole = SecondsSince(begin) / rounds;
  MILLRACE_ASSIGN_OR_RETURN(const double host,
                            HostSeconds(machine, device, *packed, layout, rounds));
  report.Add({fmt::format("{}: one batch", c.name), whole * 1e6, "us",
              "computing it on the host, and copying it", host * 1e6, params});
  return OkStatus();
}

}  // namespace

Status BenchComputed(Machine& machine, Device& device, std::uint32_t rows, std::uint32_t rounds,
                     const Report& report) {
  for (const Case& c : Cases()) {
    if (Status status = BenchCase(c, machine, device, rows, rounds, report); !status.ok()) {
      return status.WithContext(c.name);
    }
  }
  return OkStatus();
}

}  // namespace millrace::bench
