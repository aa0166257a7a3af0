// Measures operations on tensors, each over batches that all differ. The limit is taken in turn
// with it: memcpy of as many bytes as the operation writes, or for the fused chess board
// non-temporal stores of them. Inputs and outputs together are larger than the caches.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "common/base/hash.h"
#include "common/command_line/command_line.h"
#include "common/operations/program.h"
#include "tests/bench/report.h"

namespace millrace {
namespace {

struct Options {
  std::uint32_t batches = 24;  // distinct ones
  std::uint32_t rounds = 8;    // times over all batches
  bool json = false;
};

enum class Limit : std::uint8_t { kMemcpy, kStores };

/// An operation, or several that follow one another, and the tensor that it reads.
struct Case {
  std::string name;
  std::string input;  // a type
  std::uint64_t rows;
  std::vector<TensorDefinition> definitions;  // the last one is the output
  bool pad = false;                           // pads the input instead
  Limit limit = Limit::kMemcpy;
};

using Ints = std::vector<std::int64_t>;

TensorDefinition Define(std::string name, std::string operation, std::string input,
                        std::map<std::string, ParamValue> params) {
  return {std::move(name),
          std::move(operation),
          {std::move(input)},
          Params(std::move(params))};
}

Ints AnyIndex(std::int64_t below, std::size_t count) {
  std::mt19937_64 random(5);
  Ints index(count);
  for (std::int64_t& place : index) {
    place = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(below));
  }
  return index;
}

std::vector<Case> Cases() {
  const std::string float32 = "float32";
  Ints planes;
  Ints sides;
  for (std::int64_t i = 0; i < 24; ++i) {
    planes.push_back(i / 6 + 4 * (i % 6));
    sides.push_back(i / 6 % 2 == 0 ? 1 : -1);
  }
  const std::vector<ParamNumber> scale(64, ParamNumber(0.125));
  return {
      {"chess board",
       "bytes[194]",
       512,
       {Define("bits", "bits", "x", {}),
        Define("planes", "slice", "bits", {{"range", Ints{0, 1536}}, {"shape", Ints{8, 8, 24}}}),
        Define(
            "board", "take", "planes",
            {{"axis", std::int64_t{-1}}, {"index", planes}, {"scale", sides}, {"dtype", float32}})},
       false,
       Limit::kStores},
      {"bits", "bytes[194]", 2048, {Define("y", "bits", "x", {})}},
      {"cast uint8 to float32",
       "uint8[1024]",
       768,
       {Define("y", "cast", "x", {{"dtype", float32}})}},
      {"cast int64 to float32",
       "int64[1024]",
       768,
       {Define("y", "cast", "x", {{"dtype", float32}})}},
      {"cast float32 to int64",
       "float32[1024]",
       384,
       {Define("y", "cast", "x", {{"dtype", std::string("int64")}})}},
      {"cast float32 to float16",
       "float32[1024]",
       768,
       {Define("y", "cast", "x", {{"dtype", std::string("float16")}})}},
      {"cast float32 to bfloat16",
       "float32[1024]",
       768,
       {Define("y", "cast", "x", {{"dtype", std::string("bfloat16")}})}},
      {"cast float16 to float32",
       "float16[1024]",
       768,
       {Define("y", "cast", "x", {{"dtype", float32}})}},
      {"scale float32",
       "float32[16, 64]",
       768,
       {Define("y", "reshape", "x", {{"shape", Ints{1024}}, {"scale", 0.5}, {"offset", 1.5}})}},
      {"scale uint8 to float32",
       "uint8[16, 64]",
       768,
       {Define("y", "cast", "x", {{"dtype", float32}, {"scale", scale}})}},
      {"take float32",
       "float32[1024]",
       768,
       {Define("y", "take", "x", {{"index", AnyIndex(1024, 1024)}})}},
      {"take rows of float32",
       "float32[64, 16]",
       768,
       {Define("y", "take", "x", {{"index", AnyIndex(64, 64)}})}},
      {"take channels of uint8",
       "uint8[64, 64, 3]",
       256,
       {Define("y", "take", "x", {{"axis", std::int64_t{-1}}, {"index", Ints{2, 1, 0}}})}},
      {"pad int64", "int64[*]", 4096, {}, true},
      {"pad float32[80]", "float32[*, 80]", 64, {}, true},
  };
}

/// One batch of a case.
struct Batch {
  std::vector<std::uint64_t> values;
  std::vector<std::int64_t> splits;
  TensorView view;
  std::vector<std::uint64_t> out;
  std::size_t out_bytes = 0;

  /// Outputs begin at a multiple of 64 bytes, as in a payload.
  std::byte* out_data() {
    const auto at = reinterpret_cast<std::uintptr_t>(out.data());
    return reinterpret_cast<std::byte*>((at + 63) / 64 * 64);
  }
};

void Fill(Batch& batch, const TensorType& type, std::uint64_t rows, std::mt19937_64& random) {
  std::uint64_t units = rows;
  if (type.ragged) {
    batch.splits.assign(1, 0);
    for (std::uint64_t row = 0; row < rows; ++row) {
      batch.splits.push_back(batch.splits.back() + 64 + static_cast<std::int64_t>(random() % 129));
    }
    units = static_cast<std::uint64_t>(batch.splits.back());
  }
  const std::size_t bytes = units * type.UnitBytes();
  batch.values.resize(bytes / 8 + 1);
  for (std::uint64_t& word : batch.values) word = random();
  if (type.dtype == DType::kFloat32) {
    // Random bits would be odd floats.
    auto* const values = reinterpret_cast<float*>(batch.values.data());
    for (std::size_t i = 0; i < bytes / 4; ++i) values[i] = static_cast<float>(random() % 4096);
  }
  batch.view = {
      &type, rows, {reinterpret_cast<std::byte*>(batch.values.data()), bytes}, batch.splits};
}

void Store(std::byte* out, std::size_t bytes, std::uint64_t value) {
#if defined(__SSE2__)
  const __m128i wide = _mm_set1_epi64x(static_cast<long long>(value));
  for (std::size_t at = 0; at + 16 <= bytes; at += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + at), wide);
  }
  _mm_sfence();
#else
  std::memset(out, static_cast<int>(value), bytes);
#endif
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Work>
double Timed(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Status Measure(const Case& one, const Options& options, const bench::Report& report,
               std::uint64_t& check) {
  MILLRACE_ASSIGN_OR_RETURN(const TensorType type, ParseTensorType(one.input));
  TensorGraphText text;
  text.sources = {{"x", type}};
  text.definitions = one.definitions;
  text.outputs = {{one.pad ? "x" : one.definitions.back().name}};
  if (one.pad) text.pads.emplace("x", Params({{"multiple", std::int64_t{8}}}));
  MILLRACE_ASSIGN_OR_RETURN(const TensorGraph graph, TensorGraph::Bind(text));
  const TensorOutput& output = graph.outputs().front();
  const std::vector<std::size_t> inputs = {0};
  const std::vector<ProgramOutput> outputs = {{output.node, output.pad}};
  const Program program = Program::Compile(graph, inputs, outputs);

  std::mt19937_64 random(1);
  std::vector<Batch> batches(options.batches);
  for (Batch& batch : batches) Fill(batch, type, one.rows, random);
  ProgramMemory memory;
  std::vector<double> took;
  std::vector<double> limit;
  std::uint64_t bytes = 0;
  for (std::uint32_t round = 0; round <= options.rounds; ++round) {
    for (std::size_t b = 0; b < batches.size(); ++b) {
      Batch& batch = batches[b];
      ProgramRun run;
      run.room = [&](std::size_t, const TensorView& view) -> Result<std::span<std::byte>> {
        batch.out_bytes = view.units() * view.type->UnitBytes();
        batch.out.resize(batch.out_bytes / 8 + 9);  // the first round takes the memory
        return std::span(batch.out_data(), batch.out_bytes);
      };
      run.read_soon = false;  // as a consumer delivers
      Status status;
      const double seconds = Timed([&] { status = program.Run({&batch.view, 1}, run, memory); });
      MILLRACE_RETURN_IF_ERROR(status);
      const std::span<const std::byte> made(batch.out_data(), batch.out_bytes);
      if (round == 0 || round == options.rounds) check = check * 31 + Xxh3_64(made);
      if (round == 0) continue;
      took.push_back(seconds);
      bytes += batch.out_bytes;
      // From and to batches whose turn was long ago, so that they are not in the caches.
      Batch& other = batches[(b + batches.size() / 2) % batches.size()];
      Batch& source = batches[(b + batches.size() / 4) % batches.size()];
      const std::size_t count = std::min({other.out_bytes, source.out_bytes, batch.out_bytes});
      const double least = Timed([&] {
        if (one.limit == Limit::kStores) {
          Store(other.out_data(), count, round * options.batches + b);
        } else {
          std::memcpy(other.out_data(), source.out_data(), count);
        }
      });
      limit.push_back(least * static_cast<double>(batch.out_bytes) / static_cast<double>(count));
    }
  }
  const double mean = static_cast<double>(bytes) / static_cast<double>(took.size());
  report.Add({one.name,
              mean / Median(took) / 1e9,
              "GB/s",
              one.limit == Limit::kStores ? "non-temporal stores" : "memcpy",
              mean / Median(limit) / 1e9,
              {{"output", fmt::format("{:.1f} MiB", mean / (1 << 20))}}});
  return OkStatus();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Options options;
  millrace::CommandLine app("Operations on tensors; GB/s of what each writes, on one thread",
                            argv[0]);
  app.ShowDefaults();
  app.AddOption("--batches", &options.batches, "distinct batches").Between(2, 1000);
  app.AddOption("--rounds", &options.rounds, "times over all batches").Positive();
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::bench::Report report(options.json);
  std::uint64_t check = 0;
  for (const millrace::Case& one : millrace::Cases()) {
    const millrace::Status status = millrace::Measure(one, options, report, check);
    if (status.ok()) continue;
    fmt::print(stderr, "bench_operations: {}: {}\n", one.name, status.ToString());
    return 1;
  }
  report.Note(fmt::format("checksum {:016x}", check));
  return 0;
}
