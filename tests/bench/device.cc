// Measures what delivering batches to a device costs. Copies from pinned memory and the kernels
// that expand batches and compute tensors are compared with the device's own limits; the program
// also measures how much of their time is hidden behind the steps of a training.
//
// Without a GPU the program uses an accelerator that runs on the processor, as a check that it
// works.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "client/device/slot_device.h"
#include "client/session/run/prefetcher.h"
#include "common/base/hash.h"
#include "common/command_line/command_line.h"
#include "common/expand/expand_program.h"
#include "tests/bench/device_computed.h"
#include "tests/bench/device_machine.h"
#include "tests/bench/device_work.h"
#include "tests/bench/made_up.h"
#include "tests/bench/report.h"

namespace millrace {
namespace {

using bench::DeviceMemory;
using bench::Machine;
using bench::Queued;
using bench::SecondsSince;
using Batches = std::vector<std::shared_ptr<const PackedBatch>>;
constexpr int kTrainings = 5;

using WallTime = std::chrono::steady_clock::time_point;

struct Options {
  bench::MadeUp made_up{.batches = 16};
  std::uint32_t large = 65'536;   // examples in the batch that measures the kernel
  std::uint32_t computed = 4096;  // examples in the batches whose tensors are computed
  std::uint32_t rounds = 20;
  std::uint32_t steps = 200;
  double step_ms = 5;
  int gpu = 0;
  bool json = false;
};

Result<Batches> MakeBatches(const bench::MadeUp& made_up, BufferPool& pool) {
  const ExpandSpec expand{30, Symmetrization::kBidirectional, true};
  const std::vector<bench::Example> examples = bench::MakeExamples(made_up);
  MILLRACE_ASSIGN_OR_RETURN(BatchWriter writer,
                            BatchWriter::Create(bench::Tensors(), expand, pool));
  Batches batches;
  for (std::uint32_t b = 0; b < made_up.batches; ++b) {
    const std::size_t first = std::size_t{b} * made_up.examples;
    MILLRACE_ASSIGN_OR_RETURN(
        batches.emplace_back(),
        bench::Pack(writer, std::span(examples).subspan(first, made_up.examples), first));
  }
  return batches;
}

Status SameBytes(Machine& machine, Device& device, const Batches& batches) {
  BufferPool pool;
  for (const auto& packed : batches) {
    for (const DType dtype : {DType::kInt32, DType::kInt64}) {
      const RowRange rows{0, packed->examples()};
      MILLRACE_ASSIGN_OR_RETURN(const auto delivered, device.Expand(packed, dtype, rows));
      MILLRACE_ASSIGN_OR_RETURN(const auto bytes, machine.Fetch(delivered->bytes()));
      MILLRACE_ASSIGN_OR_RETURN(const auto expected, Expand(*packed, dtype, pool, rows));
      if (Xxh3(bytes) != Xxh3(expected->bytes())) {
        return Internal("the device's expansion differs from the host's");
      }
    }
  }
  return OkStatus();
}

Status BenchKernel(const Options& options, Machine& machine, Device& device,
                   const bench::Report& report) {
  const std::shared_ptr<Accelerator> accelerator = machine.accelerator();
  BufferPool pool(0, device.receive_memory());
  bench::MadeUp made_up = options.made_up;
  made_up.batches = 1;
  made_up.examples = options.large;
  MILLRACE_ASSIGN_OR_RETURN(const Batches batches, MakeBatches(made_up, pool));
  const PackedBatch& packed = *batches[0];
  const bench::Figure::Params params = {{"batch", std::to_string(made_up.examples)}};

  const std::span<const std::byte> payload = packed.payload();
  const DeviceMemory to(accelerator, payload.size());
  if (to.data() == nullptr) return ResourceExhausted("no device memory for the payload");
  MILLRACE_ASSIGN_OR_RETURN(const double copy,
                            Queued(*accelerator, options.rounds, [&](std::uint32_t) {
                              return accelerator->CopyIn(to.data(), payload);
                            }));
  MILLRACE_ASSIGN_OR_RETURN(const double copy_limit, machine.CopyLimit(payload.size()));
  report.Add({"copy to the device, bytes", static_cast<double>(payload.size()) / copy / 1e9, "GB/s",
              "copies of as many bytes from pinned memory", copy_limit, params});

  for (const DType dtype : {DType::kInt32, DType::kInt64}) {
    MILLRACE_ASSIGN_OR_RETURN(const ExpandLayout layout, LayOutExpanded(packed, dtype));
    const ExpandProgram program = MakeExpandProgram(packed, layout);
    const std::span<const std::byte> tasks = std::as_bytes(std::span(program.tasks));
    // Two outputs are written in turn, so that neither stays in the device's cache.
    const DeviceMemory a(accelerator, layout.bytes);
    const DeviceMemory b(accelerator, layout.bytes);
    const DeviceMemory table(accelerator, tasks.size());
    MILLRACE_ASSIGN_OR_RETURN(const auto error, pool.Acquire(sizeof(std::uint32_t)));
    if (a.data() == nullptr || b.data() == nullptr || table.data() == nullptr) {
      return ResourceExhausted("no device memory for the batch");
    }
    std::memset(error->data(), 0, error->size());
    MILLRACE_RETURN_IF_ERROR(accelerator->CopyIn(table.data(), tasks));
    kernel::Launch launch = program.launch;
    launch.payload = reinterpret_cast<const unsigned char*>(to.data());
    launch.tasks = reinterpret_cast<const kernel::Task*>(table.data());
    launch.error = reinterpret_cast<std::uint32_t*>(error->data());
    MILLRACE_ASSIGN_OR_RETURN(
        const double took, Queued(*accelerator, options.rounds, [&](std::uint32_t i) {
          launch.out = reinterpret_cast<unsigned char*>((i % 2 == 0 ? a : b).data());
          return accelerator->Expand(launch);
        }));
    const double bytes = static_cast<double>(payload.size() + layout.bytes);
    MILLRACE_ASSIGN_OR_RETURN(const double limit, machine.MemoryLimit(layout.bytes));
    report.Add({fmt::format("kernel to {}, bytes", DTypeName(dtype)), bytes / took / 1e9, "GB/s",
                "a copy within the device's memory", limit, params});
  }
  return OkStatus();
}

/// Seconds that `steps` steps take. If there is a device, each step takes a batch first.
Result<double> Train(const Options& options, Machine& machine,
                     const std::shared_ptr<Device>& device, const Batches& batches) {
  Mutex mutex;
  CondVar ready;
  const Tracer tracer(std::make_shared<SystemClock>());
  std::unique_ptr<client::Prefetcher> prefetcher;
  if (device != nullptr) {
    prefetcher =
        std::make_unique<client::Prefetcher>(device, 1, client::ExpandDepth{}, tracer, [&] {
          MutexLock lock(mutex);
          ready.NotifyAll();
        });
    for (std::uint32_t step = 0; step < options.steps; ++step) {
      prefetcher->Push(step, batches[step % batches.size()]);
    }
  }
  const WallTime begin = std::chrono::steady_clock::now();
  for (std::uint32_t step = 0; step < options.steps; ++step) {
    std::optional<Result<client::ExpandedBatch>> batch;
    while (prefetcher != nullptr && !batch) {
      MutexLock lock(mutex);
      batch = prefetcher->TryTake(step);
      if (!batch) ready.Wait(mutex);
    }
    if (batch) MILLRACE_RETURN_IF_ERROR(batch->status());
    MILLRACE_RETURN_IF_ERROR(machine.Step(options.step_ms / 1e3));
  }
  return SecondsSince(begin);
}

Status BenchHiding(const Options& options, Machine& machine, const std::shared_ptr<Device>& device,
                   const Batches& batches, const bench::Report& report) {
  const bench::Figure::Params params = {{"batch", std::to_string(options.made_up.examples)},
                                        {"step_ms", fmt::format("{:g}", options.step_ms)}};
  const WallTime begin = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < options.steps; ++i) {
    const auto& packed = batches[i % batches.size()];
    MILLRACE_RETURN_IF_ERROR(
        device->Expand(packed, DType::kInt32, {0, packed->examples()}).status());
  }
  const double alone = SecondsSince(begin);
  report.Add({"copy and expand one batch", alone / options.steps * 1e6, "us", "", 0, params});
  // Both kinds run in turn and the best time of each counts, to leave out what other programs do on
  // the machine.
  double bare = std::numeric_limits<double>::max();
  double fed = bare;
  for (int i = 0; i < kTrainings; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const double without, Train(options, machine, nullptr, batches));
    MILLRACE_ASSIGN_OR_RETURN(const double with, Train(options, machine, device, batches));
    bare = std::min(bare, without);
    fed = std::min(fed, with);
  }
  report.Add({"a step's time that delivery adds", (fed - bare) / options.steps * 1e6, "us", "", 0,
              params});
  const double left = 100 * std::max(0.0, fed - bare) / alone;
  report.Add({"copy and expansion that steps do not hide", left, "%", "", 0, params});
  report.Note(fmt::format("hidden: {:.1f} % of {:.1f} us a batch", 100 - left,
                          alone / options.steps * 1e6));
  return OkStatus();
}

Status Bench(const Options& options) {
  const bench::Report report(options.json);
  std::unique_ptr<Machine> machine;
#ifdef MILLRACE_CUDA
  auto gpu = bench::MakeGpuMachine(options.gpu);
  if (gpu.ok()) {
    machine = *std::move(gpu);
  } else {
    report.Note(gpu.status().message());
  }
#endif
  if (machine == nullptr) {
    report.Note("no GPU: a processor's accelerator, whose figures say nothing of a GPU");
    machine = bench::MakeHostMachine();
  }
  const std::shared_ptr<Device> device = MakeSlotDevice(machine->accelerator());
  BufferPool pool(std::size_t{1} << 30, device->receive_memory());
  MILLRACE_ASSIGN_OR_RETURN(const Batches batches, MakeBatches(options.made_up, pool));
  MILLRACE_RETURN_IF_ERROR(SameBytes(*machine, *device, batches));
  MILLRACE_RETURN_IF_ERROR(BenchKernel(options, *machine, *device, report));
  MILLRACE_RETURN_IF_ERROR(
      bench::BenchComputed(*machine, *device, options.computed, options.rounds, report));
  MILLRACE_RETURN_IF_ERROR(BenchHiding(options, *machine, device, batches, report));
  report.Note(device->status() + "; all batches had the bytes of the host");
  return OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Options options;
  millrace::CommandLine app(
      "Copies batches to a device and expands them there; how much of it steps hide.", argv[0]);
  app.ShowDefaults();
  millrace::bench::AddOptions(app, options.made_up);
  app.AddOption("--large", &options.large, "examples of the batch for rates").Positive();
  app.AddOption("--computed", &options.computed, "examples of batches with computed tensors")
      .Positive();
  app.AddOption("--rounds", &options.rounds, "copies and kernels").Positive();
  app.AddOption("--steps", &options.steps, "steps of the training").Positive();
  app.AddOption("--step-ms", &options.step_ms, "how long a step takes");
  app.AddOption("--gpu", &options.gpu, "number of the GPU");
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::Bench(options);
  if (!status.ok()) std::fprintf(stderr, "bench_device: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
