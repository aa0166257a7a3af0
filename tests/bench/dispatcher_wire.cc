#include "tests/bench/dispatcher_wire.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "tests/bench/cpu_time.h"
#include "tests/bench/dispatcher_process.h"
#include "tests/bench/limits.h"
#include "tests/bench/raw_stream.h"
#include "tests/bench/status_poller.h"

namespace millrace::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;
using SteadyTime = SteadyClock::time_point;

constexpr std::chrono::microseconds kTurn(500);
constexpr std::chrono::nanoseconds kBeat =
    std::chrono::seconds(1);  // peers that have said nothing for so long say something
constexpr double kPatienceSeconds = 60;
constexpr double kQuietSeconds = 1;  // lists that have not changed for so long are complete
constexpr std::chrono::milliseconds kLacksAfter(
    1100);  // a list is sent again if it was sent a second ago

struct Peer {
  RawStream stream;
  SteadyTime spoke;  // when it last sent something
};

struct WireWorker : Peer {
  std::string report;
};

struct WireConsumer : Peer {
  explicit WireConsumer(BenchConsumer made_up) : consumer(std::move(made_up)) {}

  BenchConsumer consumer;
  SteadyTime lacks_from;            // its reports say from then on that it lacks its list
  std::optional<SteadyTime> asked;  // when the first such report was due, until the list comes
};

/// All workers and consumers, and what they have seen.
class WireFleet {
 public:
  WireFleet(const FleetOptions& options, int port)
      : options_(options), port_(port), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    for (std::uint32_t w = 0; w < options.workers; ++w) {
      workers_.push_back(std::make_unique<WireWorker>());
      workers_.back()->report = MakeWorkReport(w, BenchFingerprint()).SerializeAsString();
    }
    for (std::uint32_t c = 0; c < options.consumers; ++c) {
      consumers_.push_back(std::make_unique<WireConsumer>(BenchConsumer(options, c)));
    }
  }
  ~WireFleet() { close(epoll_); }
  WireFleet(const WireFleet&) = delete;
  WireFleet& operator=(const WireFleet&) = delete;

  std::size_t welcomed() const { return welcomed_; }
  std::uint64_t reports() const { return paced_; }
  SteadyTime last_list() const { return last_list_; }
  /// Seconds from when each report without a list was due until the list came, and from when each
  /// report was due until it was made.
  std::vector<float>& latencies() { return latencies_; }
  std::vector<float>& lateness() { return lateness_; }
  bool AllHaveLists() const {
    return std::all_of(consumers_.begin(), consumers_.end(), [&](const auto& consumer) {
      return consumer->consumer.members() == options_.members();
    });
  }
  bool AllAnswered() const {
    return std::none_of(consumers_.begin(), consumers_.end(),
                        [](const auto& consumer) { return consumer->asked.has_value(); });
  }

  Status ConnectWorkers() {
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      MILLRACE_RETURN_IF_ERROR(Connect(workers_[w]->stream, w, "/millrace.v1.Dispatcher/Work"));
      MILLRACE_RETURN_IF_ERROR(Say(*workers_[w], workers_[w]->report));
      MILLRACE_RETURN_IF_ERROR(Turn());
    }
    return OkStatus();
  }
  Status ConnectConsumers() {
    for (std::size_t c = 0; c < consumers_.size(); ++c) {
      WireConsumer& to = *consumers_[c];
      MILLRACE_RETURN_IF_ERROR(
          Connect(to.stream, workers_.size() + c, "/millrace.v1.Dispatcher/Attach"));
      MILLRACE_RETURN_IF_ERROR(Say(to, to.consumer.Hello()));
      MILLRACE_RETURN_IF_ERROR(Turn());
    }
    return OkStatus();
  }

  /// Consumers report in turn from now on, `rate` reports a second, and lack their lists in turn.
  /// 0: they no longer do.
  void Pace(double rate) {
    rate_ = rate;
    began_ = SteadyClock::now();
    paced_ = 0;
    for (std::size_t c = 0; c < consumers_.size(); ++c) {
      consumers_[c]->lacks_from = began_ + kLacksAfter * c / consumers_.size();
    }
  }

  Status RunFor(double seconds) {
    const auto began = SteadyClock::now();
    while (Seconds(began) < seconds) MILLRACE_RETURN_IF_ERROR(SleepAndTurn());
    return OkStatus();
  }
  /// Runs until `done`; an error that says `what` was expected if that takes too long.
  Status RunUntil(const std::function<bool()>& done, const char* what) {
    const auto began = SteadyClock::now();
    while (!done()) {
      if (Seconds(began) > kPatienceSeconds) {
        return DeadlineExceeded(fmt::format("after {} s not {}", kPatienceSeconds, what));
      }
      MILLRACE_RETURN_IF_ERROR(SleepAndTurn());
    }
    return OkStatus();
  }

 private:
  Status Connect(RawStream& stream, std::size_t number, const char* method) {
    MILLRACE_RETURN_IF_ERROR(stream.Open(port_, method));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = number;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, stream.fd(), &event) != 0) return Internal("no epoll");
    return OkStatus();
  }
  Status Say(Peer& peer, std::string_view message) {
    peer.spoke = SteadyClock::now();
    return peer.stream.Send(message);
  }
  Status Say(Peer& peer, const v1::AttachRequest& message) {
    message.SerializeToString(&bytes_);
    return Say(peer, bytes_);
  }

  Status SleepAndTurn() {
    std::this_thread::sleep_for(kTurn);
    return Turn();
  }
  /// Does all that is due, and takes all that has come.
  Status Turn() {
    const SteadyTime now = SteadyClock::now();
    while (rate_ > 0) {
      const SteadyTime due = began_ + std::chrono::nanoseconds(static_cast<std::int64_t>(
                                          1e9 * static_cast<double>(paced_) / rate_));
      if (due > now) break;
      WireConsumer& consumer = *consumers_[paced_++ % consumers_.size()];
      lateness_.push_back(static_cast<float>(Seconds(due)));
      MILLRACE_RETURN_IF_ERROR(Report(consumer, due));
    }
    MILLRACE_RETURN_IF_ERROR(Beat(now));
    std::array<epoll_event, 512> events;
    const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < ready; ++i) MILLRACE_RETURN_IF_ERROR(Receive(events[i].data.u64));
    return OkStatus();
  }

  /// The next peers in turn say something if they have been silent. A round takes a second.
  Status Beat(SteadyTime now) {
    const std::size_t peers = workers_.size() + consumers_.size();
    const auto step = kBeat / static_cast<std::int64_t>(peers);
    next_beat_ = std::max(next_beat_, now - kBeat);
    for (; next_beat_ <= now; next_beat_ += step) {
      const std::size_t i = beats_++ % peers;
      Peer& peer = PeerOf(i);
      if (peer.stream.fd() < 0 || now - peer.spoke < kBeat - std::chrono::milliseconds(10))
        continue;
      MILLRACE_RETURN_IF_ERROR(i < workers_.size()
                                   ? Say(peer, workers_[i]->report)
                                   : Say(peer, BeatOf(*consumers_[i - workers_.size()])));
    }
    return OkStatus();
  }
  static v1::AttachRequest BeatOf(const WireConsumer& consumer) {
    if (consumer.consumer.welcomed()) return consumer.consumer.Report(!consumer.asked);
    v1::AttachRequest heard;
    heard.mutable_report();
    return heard;
  }
  Peer& PeerOf(std::size_t i) {
    if (i < workers_.size()) return *workers_[i];
    return *consumers_[i - workers_.size()];
  }

  Status Report(WireConsumer& consumer, SteadyTime due) {
    consumer.consumer.TakeStep();
    if (!consumer.asked && due >= consumer.lacks_from) consumer.asked = due;
    return Say(consumer, consumer.consumer.Report(!consumer.asked));
  }

  Status Receive(std::size_t i) {
    Peer& peer = PeerOf(i);
    return peer.stream.Receive([&](std::string_view message) -> Status {
      return i < workers_.size() ? OkStatus() : Take(*consumers_[i - workers_.size()], message);
    });
  }
  Status Take(WireConsumer& consumer, std::string_view message) {
    if (!response_.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      return Internal("a message of the dispatcher cannot be read");
    }
    const bool was_welcomed = consumer.consumer.welcomed();
    MILLRACE_RETURN_IF_ERROR(consumer.consumer.Receive(response_));
    if (!was_welcomed && consumer.consumer.welcomed()) {
      ++welcomed_;
      MILLRACE_RETURN_IF_ERROR(Say(consumer, consumer.consumer.Report()));
    }
    if (!response_.has_list()) return OkStatus();
    last_list_ = SteadyClock::now();
    consumer.lacks_from = last_list_ + kLacksAfter;
    if (consumer.asked) latencies_.push_back(static_cast<float>(Seconds(*consumer.asked)));
    consumer.asked.reset();
    return OkStatus();
  }

  const FleetOptions options_;
  const int port_;
  const int epoll_;
  std::vector<std::unique_ptr<WireWorker>> workers_;
  std::vector<std::unique_ptr<WireConsumer>> consumers_;
  v1::AttachResponse response_;  // kept for its memory, as is bytes_
  std::string bytes_;

  double rate_ = 0;
  SteadyTime began_;
  std::uint64_t paced_ = 0;  // reports that have been due since then
  SteadyTime next_beat_ = SteadyClock::now();
  std::size_t beats_ = 0;

  std::size_t welcomed_ = 0;
  SteadyTime last_list_;
  std::vector<float> latencies_;
  std::vector<float> lateness_;
};

double At(std::vector<float>& values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return static_cast<double>(
      values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))]);
}

/// CPU seconds of all programs of the machine.
double MachineCpuSeconds() {
  std::ifstream in("/proc/stat");
  std::string cpu;
  std::array<double, 8> ticks{};  // user, nice, system, idle, iowait, irq, softirq, steal
  in >> cpu;
  for (double& some : ticks) in >> some;
  return (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// Time, CPU time and reports until it was made.
struct Usage {
  Usage(const DispatcherProcess& of, const WireFleet& fleet)
      : began(SteadyClock::now()),
        dispatcher(of.CpuSeconds()),
        load(ThreadCpuSeconds()),
        own(ProcessCpuSeconds()),
        machine(MachineCpuSeconds()),
        reports(fleet.reports()) {}

  SteadyTime began;
  double dispatcher;
  double load;
  double own;
  double machine;
  std::uint64_t reports;
};

Status MeasurePaced(const DispatcherProcess& dispatcher, const WireOptions& options,
                    WireFleet& fleet, WireResult& result) {
  std::optional<StatusPoller> poller;
  if (options.polls_per_second > 0) poller.emplace(dispatcher.address(), options.polls_per_second);
  fleet.Pace(options.rate);
  MILLRACE_RETURN_IF_ERROR(fleet.RunFor(std::min(1.0, options.seconds)));
  fleet.latencies().clear();
  fleet.lateness().clear();
  const Usage before(dispatcher, fleet);
  MILLRACE_RETURN_IF_ERROR(fleet.RunFor(options.seconds));
  const Usage after(dispatcher, fleet);
  const double seconds = std::chrono::duration<double>(after.began - before.began).count();
  result.paced_rate = static_cast<double>(after.reports - before.reports) / seconds;
  result.answer_rate = static_cast<double>(fleet.latencies().size()) / seconds;
  result.paced_cpu = (after.dispatcher - before.dispatcher) / seconds;
  result.load_cpu = (after.load - before.load) / seconds;
  result.other_cpu = (after.machine - before.machine) / seconds - result.paced_cpu -
                     (after.own - before.own) / seconds;
  // Whoever lacks its list has it soon. Lists that come now count too.
  fleet.Pace(0);
  MILLRACE_RETURN_IF_ERROR(
      fleet.RunUntil([&fleet] { return fleet.AllAnswered(); }, "all reports had their answers"));
  if (fleet.latencies().empty()) return Internal("no report lacked its list: measure for longer");
  result.p50 = At(fleet.latencies(), 0.5);
  result.p99 = At(fleet.latencies(), 0.99);
  result.worst = At(fleet.latencies(), 1);
  result.late_p99 = At(fleet.lateness(), 0.99);
  result.late_worst = At(fleet.lateness(), 1);
  if (!poller) return OkStatus();
  StatusPoller::Polls polls = poller->Stop();
  result.status_p50 = At(polls.seconds, 0.5);
  result.status_worst = At(polls.seconds, 1);
  result.status_bytes = static_cast<double>(polls.bytes);
  return polls.failure;
}

}  // namespace

Result<WireResult> RunOverGrpc(const FleetOptions& options, const WireOptions& wire) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  MILLRACE_ASSIGN_OR_RETURN(const auto dispatcher, DispatcherProcess::Start());
  WireResult result;
  WireFleet fleet(options, dispatcher->port());
  const double empty = dispatcher->AnonymousBytes();
  auto began = SteadyClock::now();
  MILLRACE_RETURN_IF_ERROR(fleet.ConnectConsumers());
  MILLRACE_RETURN_IF_ERROR(fleet.RunUntil([&] { return fleet.welcomed() == options.consumers; },
                                          "all consumers had a Welcome"));
  result.all_welcome = Seconds(began);
  MILLRACE_RETURN_IF_ERROR(fleet.RunFor(1));
  const double with_consumers = dispatcher->AnonymousBytes();
  result.consumer_bytes = (with_consumers - empty) / options.consumers;

  began = SteadyClock::now();
  MILLRACE_RETURN_IF_ERROR(fleet.ConnectWorkers());
  // The lists change until all workers are known.
  MILLRACE_RETURN_IF_ERROR(fleet.RunUntil(
      [&] { return fleet.AllHaveLists() && Seconds(fleet.last_list()) > kQuietSeconds; },
      "all consumers had their lists"));
  result.all_joined = std::chrono::duration<double>(fleet.last_list() - began).count();
  result.worker_bytes = (dispatcher->AnonymousBytes() - with_consumers) / options.workers;

  MILLRACE_RETURN_IF_ERROR(MeasurePaced(*dispatcher, wire, fleet, result));
  return result;
}

}  // namespace millrace::bench
