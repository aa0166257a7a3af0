#include "tests/bench/status_poller.h"

#include <chrono>
#include <utility>

#include "common/transport/grpc/grpc_client.h"
#include "tests/bench/limits.h"

namespace millrace::bench {

StatusPoller::StatusPoller(std::string address, double polls_per_second)
    : address_(std::move(address)),
      polls_per_second_(polls_per_second),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

StatusPoller::Polls StatusPoller::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  return std::move(polls_);
}

void StatusPoller::Run(const std::stop_token& stop) {
  const auto connector = MakeGrpcConnector({});
  auto due = std::chrono::steady_clock::now();
  while (!stop.stop_requested()) {
    const Result<v1::ServiceStatus> status = connector->GetStatus(address_, 10);
    polls_.seconds.push_back(static_cast<float>(Seconds(due)));
    if (status.ok()) polls_.bytes = status->ByteSizeLong();
    if (!status.ok() && polls_.failure.ok()) polls_.failure = status.status();
    due += std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 / polls_per_second_));
    std::this_thread::sleep_until(due);
  }
}

}  // namespace millrace::bench
