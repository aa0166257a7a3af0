// Batches of a Python source: a pool of one process against a plain loop in one process that writes
// the same arrays into a batch, a multiprocessing pool, and (if they are installed) torch's
// DataLoader and Grain, in turns. Examples of 500 B and of 260 kB.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "common/command_line/command_line.h"
#include "server/plugin/plugin_pool.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;

struct Speed {
  double examples = 0;  // a second
  double cpu = 0;       // seconds an example
  double bytes = 0;     // a second, where it is known
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// A batch in memory that is used again, as a builder of batches has it.
class PackedBatch {
 public:
  void Fill(const PluginReply& reply) {
    std::size_t end = 0;
    const auto add = [&](std::span<const std::byte> bytes) {
      if (memory_.size() < end + bytes.size()) memory_.resize(2 * (end + bytes.size()));
      std::memcpy(memory_.data() + end, bytes.data(), bytes.size());
      end += bytes.size();
    };
    for (std::size_t row = 0; row < reply.rows(); ++row) add(reply.values(0, row));
    for (const std::size_t tensor : {1u, 2u}) {
      if (const auto column = reply.column(tensor)) add(*column);
    }
    bytes_ += end;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<std::byte> memory_;
  std::uint64_t bytes_ = 0;
};

Result<Speed> MeasurePool(PluginPool& pool, std::size_t rows, double seconds) {
  PackedBatch batch;
  std::uint64_t step = 0;
  const auto build = [&]() -> Status {
    PluginRequest request;
    for (std::size_t i = 0; i < rows; ++i) request.ids.push_back((step * rows + i) % 4096);
    ++step;
    MILLRACE_ASSIGN_OR_RETURN(const PluginReply reply, pool.Build(request));
    if (reply.failed() > 0) return Internal(FailureLine(reply.failure(0)));
    batch.Fill(reply);
    return OkStatus();
  };
  for (int i = 0; i < 3; ++i) MILLRACE_RETURN_IF_ERROR(build());
  const pid_t process = pool.Stats()[0].process;
  const auto cpu = [&] { return ProcessCpuSeconds() + ProcessCpuSeconds(process); };
  const double cpu_before = cpu();
  const std::uint64_t bytes_before = batch.bytes(), step_before = step;
  const double begin = Now();
  while (Now() - begin < seconds) MILLRACE_RETURN_IF_ERROR(build());
  const double elapsed = Now() - begin;
  const double count = static_cast<double>((step - step_before) * rows);
  return Speed{count / elapsed, (cpu() - cpu_before) / count,
               static_cast<double>(batch.bytes() - bytes_before) / elapsed};
}

std::map<std::string, Speed> MeasureRivals(const std::string& python, const fs::path& script,
                                           const std::string& size, std::size_t rows,
                                           double seconds) {
  const std::string command =
      fmt::format("OMP_NUM_THREADS=1 {} {} {} {} {} loop multiprocessing torch grain", python,
                  script.string(), size, rows, seconds);
  std::map<std::string, Speed> speeds;
  std::FILE* const output = ::popen(command.c_str(), "r");
  if (output == nullptr) return speeds;
  char name[64];
  Speed speed;
  while (std::fscanf(output, "%63s %lf %lf", name, &speed.examples, &speed.cpu) == 3) {
    speeds[name] = speed;
  }
  ::pclose(output);
  return speeds;
}

struct Options {
  std::string python = "python3";
  fs::path scripts = MILLRACE_SOURCE_DIR "/tests/bench/rivals";
  std::size_t rows = 512;
  double seconds = 1;
  int turns = 3;
  bool json = false;
};

Status Measure(const Options& options, const std::string& size, const fs::path& folder) {
  const Report report(options.json);
  PluginPoolOptions pool_options;
  pool_options.plugin.name = pool_options.object.module = "plugin_source";
  pool_options.plugin.path = folder / "plugin";
  pool_options.plugin.python = options.python;
  pool_options.object.name = "Source";
  pool_options.object.args = fmt::format(R"({{"size": "{}"}})", size);
  pool_options.copies = folder / "copies";
  pool_options.launcher = std::make_shared<Launcher>();
  MILLRACE_ASSIGN_OR_RETURN(const auto pool, PluginPool::Start(pool_options));
  std::map<std::string, std::vector<double>> examples, cpu, bytes;
  const auto add = [&](const std::string& name, const Speed& speed) {
    examples[name].push_back(speed.examples);
    cpu[name].push_back(speed.cpu * 1e6);
    bytes[name].push_back(speed.bytes);
  };
  for (int turn = 0; turn < options.turns; ++turn) {
    MILLRACE_ASSIGN_OR_RETURN(const Speed speed, MeasurePool(*pool, options.rows, options.seconds));
    add("pool", speed);
    for (const auto& [name, rival] :
         MeasureRivals(options.python, options.scripts / "plugin_rivals.py", size, options.rows,
                       options.seconds)) {
      add(name, rival);
    }
  }
  if (examples["loop"].empty()) return Internal("the plain loop cannot be run");
  for (const auto& [name, values] : examples) {
    report.Add(
        {size + ": " + name, Median(values), "examples/s", "loop", Median(examples["loop"])});
    report.Add(
        {size + ": CPU of " + name, Median(cpu[name]), "us/example", "loop", Median(cpu["loop"])});
  }
  report.Add({size + ": pool", Median(bytes["pool"]) / 1e9, "GB/s", "", 0});
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  using namespace millrace::bench;
  Options options;
  millrace::CommandLine app("Measures how fast a Python source fills batches.", argv[0]);
  app.AddOption("--python", &options.python, "a python with numpy").ShowDefault();
  app.AddOption("--rows", &options.rows, "rows of a batch").ShowDefault();
  app.AddOption("--seconds", &options.seconds, "of one measurement").ShowDefault();
  app.AddOption("--turns", &options.turns, "measurements of each").ShowDefault();
  app.AddFlag("--json", options.json, "print JSON");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  std::string name = (fs::temp_directory_path() / "millrace.bench.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return 1;
  fs::create_directories(fs::path(name) / "plugin");
  fs::copy(options.scripts / "plugin_source.py", fs::path(name) / "plugin");
  int code = 0;
  for (const char* size : {"small", "large"}) {
    const millrace::Status status = Measure(options, size, name);
    if (!status.ok()) fmt::print(stderr, "{}\n", status.message());
    if (!status.ok()) code = 1;
  }
  fs::remove_all(name);
  return code;
}
