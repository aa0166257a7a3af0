#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/bench/device_machine.h"
#include "tests/support/host_accelerator.h"

namespace millrace::bench {
namespace {

class HostMachine final : public Machine {
 public:
  std::shared_ptr<Accelerator> accelerator() const override { return accelerator_; }
  Status Step(double seconds) override {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return OkStatus();
  }
  Result<double> CopyLimit(std::size_t bytes) override { return Memcpy(bytes); }
  Result<double> MemoryLimit(std::size_t bytes) override { return 2 * Memcpy(bytes); }
  Result<std::vector<std::byte>> Fetch(std::span<const std::byte> bytes) override {
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }

 private:
  static double Memcpy(std::size_t bytes) {
    const std::vector<std::byte> from(bytes, std::byte{1});
    std::vector<std::byte> to(bytes);
    double best = 0;
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      std::memcpy(to.data(), from.data(), bytes);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      best = std::max(best, static_cast<double>(bytes) / took.count() / 1e9);
    }
    return best;
  }

  const std::shared_ptr<HostAccelerator> accelerator_ = std::make_shared<HostAccelerator>();
};

}  // namespace

std::unique_ptr<Machine> MakeHostMachine() { return std::make_unique<HostMachine>(); }

}  // namespace millrace::bench
