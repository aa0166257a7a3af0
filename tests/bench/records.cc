// Measures records on one thread, stage by stage, over the chess pipeline of
// docs/guides/records.md: a board of 1552 bits and a score in each record.
//
//   framing     both checksums of every record, in the order of the file
//   parse       framing, and the features of tf.train.Example
//   worker      the batches that a worker makes: order, checksums, parse, pack
//   expansion   what a consumer makes of them, against non-temporal stores of as many bytes
//   end to end  worker and expansion in turn
//
// Rates are over the CPU time of the thread. The stages take turns, so that what else happens on
// the machine meets all of them. With --tensorflow, so does tf.data's form of the same pipeline
// (rivals/tfdata_records.py), on one core; its rate is over CPU time or wall time, whichever is
// better for it.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#else
#include <cstring>
#endif

#include "common/batch/arena.h"
#include "common/command_line/command_line.h"
#include "common/expand/expand.h"
#include "common/parameters/member.h"
#include "server/catalog/product_kinds.h"
#include "server/files/mapped_file.h"
#include "server/kinds/records/format/example_parser.h"
#include "server/kinds/records/format/record_framing.h"
#include "server/kinds/records/generator/records_generator.h"
#include "server/plan/plan_library.h"
#include "server/plan/tensors/tensor_plan.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/daemon.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kOutputs = 16;  // delivered batches in memory, together larger than caches

struct Options {
  std::string dir;  // empty: made up
  std::uint64_t records = 400'000;
  std::uint32_t batch = 512;
  std::uint32_t rounds = 9;
  std::uint32_t batches = 128;  // of each stage, in each round
  std::string tensorflow;       // a Python that has TensorFlow; empty: no rival
  double seconds = 5;           // that the rival is measured in each round
  bool json = false;
};

constexpr const char* kChessPipeline = R"yaml(
dataset: chess
source: {records: {d: "bytes[194]", s: int64}}
shuffle: {seed: 0, block: 16384}
tensors:
  bits: {bits: d, order: msb}
  planes: {slice: bits, range: [0, 1536], shape: [8, 8, 24]}
  board:
    take: planes
    axis: -1
    index: [0, 4, 8, 12, 16, 20,  1, 5, 9, 13, 17, 21,  2, 6, 10, 14, 18, 22,  3, 7, 11, 15, 19, 23]
    scale: [1, 1, 1, 1, 1, 1,  -1, -1, -1, -1, -1, -1,  1, 1, 1, 1, 1, 1,  -1, -1, -1, -1, -1, -1]
    dtype: float32
  flags: {slice: bits, range: [1536, 1546], dtype: float32}
  mate: {slice: bits, range: [1546, 1547], squeeze: true}
  sf: {cast: s, dtype: float64}
  score:
    expr: "mate ? sign(sf) * (A + (1 - A) / (B - 1) * max(0, B - abs(sf))) : A * tanh(sf / K)"
    with: {A: 0.9, B: 50, K: 400}
    dtype: float32
output: [board, flags, score]
)yaml";

/// Writes to all of `out`, past the caches.
void StoreEverywhere(std::span<std::byte> out, std::uint64_t value) {
#if defined(__SSE2__)
  const __m128i wide = _mm_set1_epi64x(static_cast<long long>(value));
  for (std::size_t at = 0; at + 16 <= out.size(); at += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(out.data() + at), wide);
  }
  _mm_sfence();
#else
  std::memset(out.data(), static_cast<int>(value), out.size());
#endif
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The files of the dataset, read record after record without a pipeline.
class RecordFiles {
 public:
  static Result<RecordFiles> Open(const fs::path& dir) {
    RecordFiles files;
    for (const auto& entry : fs::directory_iterator(dir)) {
      if (entry.path().filename().string().find("tfrecord") == std::string::npos) continue;
      MILLRACE_ASSIGN_OR_RETURN(MappedFile file,
                                MappedFile::Open(entry.path(), AccessPattern::kSequential));
      files.files_.push_back(std::move(file));
    }
    if (files.files_.empty()) return NotFound(dir.string() + ": no TFRecord files");
    return files;
  }

  /// Reads the next `count` records, from the begin again after the last. DataLoss for a bad one.
  Status Read(std::uint64_t count, bool parse, std::uint64_t& check) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::span<const std::byte> file = files_[at_].bytes();
      const FramedRecord record = ReadRecord(file, offset_);
      if (record.fault != RecordFault::kSound) return DataLoss(files_[at_].path().string());
      if (parse && !parser_.Parse(record.data)) return DataLoss("no tf.train.Example");
      check += parse ? static_cast<std::uint64_t>(parser_.feature(1).ints()[0]) : 1;
      offset_ = record.next;
      if (offset_ < file.size()) continue;
      offset_ = 0;
      at_ = (at_ + 1) % files_.size();
    }
    return OkStatus();
  }

 private:
  std::vector<MappedFile> files_;
  std::size_t at_ = 0;
  std::uint64_t offset_ = 0;
  ExampleParser parser_{std::vector<std::string>{"d", "s"}};
};

/// CPU seconds of each round, and what the rival reached in it.
struct Times {
  std::vector<double> framing, parse, worker, expansion, stores, end_to_end;
  std::vector<double> rival;  // million records a second
};

class Run {
 public:
  Run(const Options& options, const Report& report) : options_(options), report_(report) {}

  Status All() {
    dir_ = options_.dir;
    if (dir_.empty()) {
      dir_ = made_up_.path() / "data";
      const GenerateRequest request{.params = Params({{"records", AsParamValue(options_.records)},
                                                     {"floats", std::int64_t{0}}}),
                                    .progress = {}};
      MILLRACE_RETURN_IF_ERROR(GenerateRecords(dir_, request).status());
    }
    MILLRACE_RETURN_IF_ERROR(Compile());
    MILLRACE_ASSIGN_OR_RETURN(RecordFiles files, RecordFiles::Open(dir_));
    MILLRACE_RETURN_IF_ERROR(Round(files, nullptr));  // takes the memory, and fills the caches
    Times times;
    for (std::uint32_t round = 0; round < options_.rounds; ++round) {
      MILLRACE_RETURN_IF_ERROR(Round(files, &times));
    }
    Print(times);
    return OkStatus();
  }

 private:
  Status Compile() {
    PlanLibraryOptions library;
    library.kinds = ProductKinds();
    library.datasets["chess"] = {.dir = dir_, .index_file = made_up_.path() / "index"};
    library_ = std::make_unique<PlanLibrary>(std::move(library), MakeNullLogger());
    PipelineSource source;
    source.yaml = fmt::format("millrace: 1\nbatch: {{size: {}}}{}", options_.batch, kChessPipeline);
    MILLRACE_ASSIGN_OR_RETURN(plan_, library_->Compile(source));
    const TensorPlan* const computed = plan_->computed();
    if (computed == nullptr || !computed->consumer()) return Internal("nothing is left to expand");
    MILLRACE_ASSIGN_OR_RETURN(
        delivery_, Delivery::Make(plan_->tensors(), *computed->consumer(), DType::kInt32));
    scratch_ = plan_->NewScratch();
    units_ = plan_->counts().selected / options_.batch;
    if (units_ == 0) return InvalidArgument("the dataset has less than one batch");
    return OkStatus();
  }

  Result<std::shared_ptr<const PackedBatch>> NextBatch() {
    const std::uint64_t unit = next_++;
    return plan_->Batch(unit / units_, {unit % units_ * options_.batch, options_.batch}, *scratch_);
  }

  /// All stages in turn. `times`: where the times are noted; nullptr: nowhere.
  Status Round(RecordFiles& files, Times* times) {
    const std::uint64_t records = std::uint64_t{options_.batches} * options_.batch;
    double began = ThreadCpuSeconds();
    const auto took = [&began] { return ThreadCpuSeconds() - std::exchange(began, 0); };
    MILLRACE_RETURN_IF_ERROR(files.Read(records, /*parse=*/false, check_));
    const double framing = took();

    began = ThreadCpuSeconds();
    MILLRACE_RETURN_IF_ERROR(files.Read(records, /*parse=*/true, check_));
    const double parse = took();

    began = ThreadCpuSeconds();
    std::vector<std::shared_ptr<const PackedBatch>> batches;
    for (std::uint32_t i = 0; i < options_.batches; ++i) {
      MILLRACE_ASSIGN_OR_RETURN(auto batch, NextBatch());
      batches.push_back(std::move(batch));
    }
    const double worker = took();

    double expansion = 0;
    double stores = 0;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      MILLRACE_ASSIGN_OR_RETURN(const ExpandLayout layout, LayOutExpanded(*batches[i], delivery_));
      MILLRACE_ASSIGN_OR_RETURN(const std::span<std::byte> out, Output(i, layout.bytes));
      began = ThreadCpuSeconds();
      MILLRACE_RETURN_IF_ERROR(ExpandInto(*batches[i], layout, out));
      expansion += took();
      check_ += static_cast<std::uint64_t>(out[out.size() / 2]);
      MILLRACE_ASSIGN_OR_RETURN(const std::span<std::byte> other,
                                Output(i + kOutputs / 2, layout.bytes));
      began = ThreadCpuSeconds();
      StoreEverywhere(other, i);
      stores += took();
      bytes_ = layout.bytes;
    }
    batches.clear();

    began = ThreadCpuSeconds();
    for (std::uint32_t i = 0; i < options_.batches; ++i) {
      MILLRACE_ASSIGN_OR_RETURN(const auto batch, NextBatch());
      MILLRACE_ASSIGN_OR_RETURN(const auto delivered, Expand(*batch, delivery_, pool_));
      check_ += delivered->tensors().size();
    }
    const double end_to_end = took();
    double rival = 0;
    if (times != nullptr && !options_.tensorflow.empty()) {
      MILLRACE_ASSIGN_OR_RETURN(rival, MeasureRival());
    }
    if (times == nullptr) return OkStatus();
    times->framing.push_back(framing);
    times->parse.push_back(parse);
    times->worker.push_back(worker);
    times->expansion.push_back(expansion);
    times->stores.push_back(stores);
    times->end_to_end.push_back(end_to_end);
    times->rival.push_back(rival);
    return OkStatus();
  }

  /// The rival's rate in million records a second, measured by a process of its own.
  Result<double> MeasureRival() const {
    const std::string command = fmt::format(
        "'{}' '{}/tests/bench/rivals/tfdata_records.py' --data '{}' --batch {} "
        "--seconds {}",
        options_.tensorflow, MILLRACE_SOURCE_DIR, dir_.string(), options_.batch, options_.seconds);
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return Internal("no shell for: " + command);
    std::string text;
    std::array<char, 4096> buffer;
    for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
      text.append(buffer.data(), n);
    }
    static constexpr std::string_view kKey = "\"value\": ";
    const std::size_t at = text.find(kKey);
    if (::pclose(pipe) != 0 || at == std::string::npos) return Internal("failed: " + command);
    return std::strtod(text.c_str() + at + kKey.size(), nullptr);
  }

  /// Memory for a delivered batch; those with neighbouring numbers differ.
  Result<std::span<std::byte>> Output(std::size_t number, std::size_t bytes) {
    std::shared_ptr<Buffer>& buffer = outputs_[number % kOutputs];
    if (buffer == nullptr || buffer->bytes().size() < bytes) {
      MILLRACE_ASSIGN_OR_RETURN(buffer, pool_.Acquire(bytes));
    }
    return buffer->bytes().first(bytes);
  }

  void Print(const Times& times) const {
    const double records = static_cast<double>(options_.batches) * options_.batch;
    const Figure::Params params = {{"batch", std::to_string(options_.batch)}};
    const auto rate = [&](const char* name, const std::vector<double>& seconds) {
      report_.Add({name, records / Median(seconds) / 1e6, "M records/s", "", 0, params});
    };
    rate("records, framing", times.framing);
    rate("records, framing and parse", times.parse);
    rate("records, worker", times.worker);
    const double bytes = static_cast<double>(bytes_) * options_.batches;
    report_.Add({"records, expansion", bytes / Median(times.expansion) / 1e9, "GB/s",
                 "non-temporal stores", bytes / Median(times.stores) / 1e9, params});
    rate("records, end to end", times.end_to_end);
    if (!options_.tensorflow.empty()) {
      const double rival = Median(times.rival);
      report_.Add({"records, end to end, tf.data", rival, "M records/s", "", 0, params});
      report_.Add({"records, end to end, of tf.data's rate",
                   records / Median(times.end_to_end) / 1e6 / rival, "times", "", 0, params});
    }
    report_.Note(fmt::format("checksum {:016x}", check_));
  }

  const Options& options_;
  const Report& report_;
  const TemporaryFolder made_up_;
  fs::path dir_;  // of the dataset
  std::unique_ptr<PlanLibrary> library_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<BatchScratch> scratch_;
  Delivery delivery_;
  BufferPool pool_;
  std::array<std::shared_ptr<Buffer>, kOutputs> outputs_;
  std::uint64_t units_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t bytes_ = 0;  // of a delivered batch
  std::uint64_t check_ = 0;
};

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  using namespace millrace::bench;
  Options options;
  millrace::CommandLine app(
      "Records of tf.train.Example on one thread, from the file to delivered tensors", argv[0]);
  app.ShowDefaults();
  app.AddOption("dir", &options.dir, "dataset with the features d and s (default: made up)");
  app.AddOption("--records", &options.records, "made-up records").Positive();
  app.AddOption("--batch", &options.batch, "records a batch").Between(1, 1 << 20);
  app.AddOption("--rounds", &options.rounds, "times that each stage is run").Between(1, 10000);
  app.AddOption("--batches", &options.batches, "batches a round").Between(1, 100000);
  app.AddOption("--tensorflow", &options.tensorflow,
                "Python with TensorFlow, numpy and xxhash, to measure tf.data too");
  app.AddOption("--seconds", &options.seconds, "seconds of the rival in each round");
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const Report report(options.json);
  const millrace::Status status = Run(options, report).All();
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_records: {}\n", status.message());
  return 1;
}
