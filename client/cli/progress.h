// Progress of long work: a bar on a terminal, a plain line now and then otherwise. To stderr.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace millrace::cli {

/// Thread-safe. The line is finished by the destructor.
class Progress {
 public:
  /// `unit` is what is counted ("bytes" are shown in MB). `total` 0: unknown.
  Progress(std::string what, std::string unit, std::uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Add(std::uint64_t amount);
  void Set(std::uint64_t done);
  void SetTotal(std::uint64_t total);
  /// A few words after the bar.
  void Note(std::string text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::cli
