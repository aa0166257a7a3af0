// Limits of the machine itself, measured in the same run as the figures that are compared with
// them.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace millrace::bench {

inline double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

/// Bytes a second of memcpy between two buffers larger than the caches, on one thread.
inline double MemcpyBytesPerSecond() {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes, 2);
  double best = 0;
  for (int round = 0; round < 4; ++round) {
    from[static_cast<std::size_t>(round)] = static_cast<char>(round);
    const auto began = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), kBytes);
    const double rate = static_cast<double>(kBytes) / Seconds(began);
    if (to[0] == 0 && rate > best) best = rate;
  }
  return best;
}

/// Bytes a second over one TCP connection on loopback, `block` bytes a send. 0 if that fails.
inline double LoopbackBytesPerSecond(std::size_t block = std::size_t{1} << 20) {
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    close(listener);
    return 0;
  }
  std::thread sender([&] {
    const int out = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(out, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      std::vector<char> data(block, 'x');
      for (std::size_t sent = 0; sent < kBytes;) {
        const ssize_t n = write(out, data.data(), data.size());
        if (n <= 0) break;
        sent += static_cast<std::size_t>(n);
      }
    }
    close(out);
  });
  const int in = accept(listener, nullptr, nullptr);
  std::vector<char> data(block);
  std::size_t received = 0;
  const auto began = std::chrono::steady_clock::now();
  for (ssize_t n; (n = read(in, data.data(), data.size())) > 0;)
    received += static_cast<std::size_t>(n);
  const double rate = static_cast<double>(received) / Seconds(began);
  sender.join();
  close(in);
  close(listener);
  return received >= kBytes ? rate : 0;
}

}  // namespace millrace::bench
