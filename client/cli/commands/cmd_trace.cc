// `millrace trace`: records a timeline of dispatcher, workers and consumers.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/commands/connection.h"
#include "client/cli/numbers.h"
#include "client/cli/stop_signals.h"
#include "client/cli/trace/trace_recording.h"
#include "common/system/mutex.h"

namespace millrace::cli {
namespace {

/// Number of spans that are kept. They take about 300 MB here, and a browser can still show them as
/// JSON. If more come, the trace ends early.
constexpr std::size_t kMostSpans = 2'000'000;
/// Time that the dispatcher may take beyond the trace itself: it waits 2 s for late spans, and
/// longer if we take them slowly.
constexpr std::chrono::seconds kLateness(30);
constexpr double kTraceAnswerSeconds = 10;

struct TraceArguments {
  Connection connection;
  std::uint32_t seconds = 5;
};

/// Keeps all chunks until the stream ends. Thread-safe.
class Receiver final : public StreamHandler<v1::TraceChunk> {
 public:
  void OnMessage(v1::TraceChunk chunk) override {
    MutexLock lock(mutex_);
    if (ended_) return;
    recording_.Add(std::move(chunk));
    if (recording_.spans() >= kMostSpans) End(OkStatus());
  }
  void OnWriteDone() override {}
  void OnClosed(const Status& status) override {
    MutexLock lock(mutex_);
    End(status);
  }
  void Interrupt() {
    MutexLock lock(mutex_);
    End(OkStatus());
  }

  /// Waits for the end of the stream, at most until the given time, and returns all that has come.
  Result<TraceRecording> Take(std::chrono::steady_clock::time_point until) {
    MutexLock lock(mutex_);
    while (!ended_) {
      const auto left = until - std::chrono::steady_clock::now();
      if (left <= left.zero()) return DeadlineExceeded("the dispatcher does not end the trace");
      changed_.WaitFor(mutex_, left);
    }
    MILLRACE_RETURN_IF_ERROR(status_);
    return std::move(recording_);
  }

 private:
  void End(const Status& status) MILLRACE_REQUIRES(mutex_) {
    if (ended_) return;
    ended_ = true;
    status_ = status;
    changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  TraceRecording recording_ MILLRACE_GUARDED_BY(mutex_);
  bool ended_ MILLRACE_GUARDED_BY(mutex_) = false;
  Status status_ MILLRACE_GUARDED_BY(mutex_);
};

void Summarise(const TraceRecording& recording) {
  std::fprintf(stderr, "%zu spans of %zu dispatcher, %zu workers and %zu consumers\n",
               recording.spans(), recording.processes(v1::TRACE_DISPATCHER),
               recording.processes(v1::TRACE_WORKER), recording.processes(v1::TRACE_CONSUMER));
  if (recording.spans() == 0) {
    std::fprintf(stderr, "the trace is empty: no batch was built or taken in that time\n");
  }
  if (recording.spans() >= kMostSpans) {
    std::fprintf(stderr,
                 "the trace was ended early: it has %zu spans, more than most viewers show\n",
                 recording.spans());
  }
  if (recording.dropped() > 0) {
    std::fprintf(stderr, "%llu spans were lost: they came faster than they could be sent\n",
                 static_cast<unsigned long long>(recording.dropped()));
  }
  if (recording.clock_error_ns() > 0) {
    std::fprintf(stderr, "clocks agree within %.3f ms\n",
                 static_cast<double>(recording.clock_error_ns()) / 1e6);
  }
}

Status RunTrace(const TraceArguments& options) {
  const auto receiver = std::make_shared<Receiver>();
  // An interrupted trace is shorter, but just as valid.
  const StopSignals signals([receiver] { receiver->Interrupt(); });
  MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<Connector> connector,
                            Connect(options.connection));
  Result<TraceRecording> recording = Unavailable("not begun");
  {
    const auto stream = connector->Trace(options.connection.address, receiver);
    v1::TraceRequest request;
    request.set_seconds(options.seconds);
    stream->Write(std::move(request));
    recording = receiver->Take(std::chrono::steady_clock::now() +
                               std::chrono::seconds(options.seconds) + kLateness);
  }
  connector->WaitForStreams(Connector::kStreamsEndSeconds);
  if (!recording.ok() && recording.status().code() == StatusCode::kUnavailable) {
    // A question finds out better than a stream why there is no connection.
    const auto asked = connector->GetStatus(options.connection.address, kTraceAnswerSeconds);
    if (!asked.ok()) return asked.status();
  }
  if (!recording.ok()) {
    return recording.status().WithContext("dispatcher at " + options.connection.address);
  }
  // Write errors are kept in the state of stdout, which main checks.
  recording->WriteJson(
      [](std::string_view piece) { std::fwrite(piece.data(), 1, piece.size(), stdout); });
  Summarise(*recording);
  return OkStatus();
}

}  // namespace

void AddTraceCommand(Tool& tool) {
  const auto options = std::make_shared<TraceArguments>();
  CommandLine& command =
      tool.Add("trace", "Record what everybody does for some seconds, batch by batch",
               "  millrace trace --seconds 5 > trace.json   # open it at https://ui.perfetto.dev\n"
               "Ctrl-C ends it earlier.\n",
               [options] { return RunTrace(*options); });
  AddConnection(command, options->connection);
  command.AddOption("--seconds", &options->seconds, "how long to record")
      .Check(WholeNumber(1, 600))
      .TypeName("SECONDS")
      .ShowDefault();
}

}  // namespace millrace::cli
