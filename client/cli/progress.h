// Progress of long work, on stderr: a bar on a terminal, otherwise a plain line now and then.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace millrace::cli {

/// Thread-safe. The destructor finishes the line.
class Progress {
 public:
  /// `unit` names what is counted; "bytes" are shown in MB. `total`: 0 means unknown.
  Progress(std::string what, std::string unit, std::uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Add(std::uint64_t amount);
  void Set(std::uint64_t done);
  void SetTotal(std::uint64_t total);
  /// Sets a few words that follow the bar.
  void Note(std::string text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::cli
