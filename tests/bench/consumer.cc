// The C++ client in a training loop: batches a second if the loop does nothing, and how long Next
// takes if the batch is there already. tests/python/bench measures the Python client against it.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "client/session.h"
#include "common/command_line/command_line.h"
#include "tests/bench/report.h"

namespace millrace::bench {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

/// Takes `batches` batches, and is busy for `pause` seconds before each one. Returns the time that
/// each Next took.
Result<std::vector<double>> Take(Session& session, int batches, double pause) {
  std::vector<double> times;
  while (static_cast<int>(times.size()) < batches) {
    auto began = Clock::now();
    while (Seconds(Clock::now() - began) < pause) {
    }
    began = Clock::now();
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<Batch> batch, session.Next());
    times.push_back(Seconds(Clock::now() - began));
    if (batch) continue;
    times.pop_back();
    MILLRACE_RETURN_IF_ERROR(session.NextEpoch().status());
  }
  return times;
}

Status Run(const std::string& address, const std::string& pipeline, int batches) {
  SessionOptions options;
  options.address = address;
  options.pipeline_file = pipeline;
  options.job = fmt::format("bench-{}", getpid());
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Connect(options));
  MILLRACE_RETURN_IF_ERROR(Take(*session, batches / 4, 0).status());  // warm-up
  const auto began = Clock::now();
  MILLRACE_RETURN_IF_ERROR(Take(*session, batches, 0).status());
  const double seconds = Seconds(Clock::now() - began);
  MILLRACE_ASSIGN_OR_RETURN(std::vector<double> in_hand, Take(*session, 2000, 0.0005));
  std::nth_element(in_hand.begin(), in_hand.begin() + 1000, in_hand.end());
  const Report report(true);
  report.Add({"batches to a loop that does nothing", batches / seconds, "batches/s", "", 0, {}});
  report.Add({"a batch in hand, median", in_hand[1000] * 1e6, "us", "", 0, {}});
  return OkStatus();
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  millrace::CommandLine app("Measures the C++ client in a training loop.", argv[0]);
  std::string address;
  std::string pipeline;
  int batches = 20000;
  app.AddOption("address", &address, "address of a dispatcher").Required();
  app.AddOption("pipeline", &pipeline, "pipeline file").Required();
  app.AddOption("--batches", &batches, "batches to take");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::Status status = millrace::bench::Run(address, pipeline, batches);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
