// The name of this machine's processor, for figures that depend on it.
#pragma once

#include <fstream>
#include <string>

namespace millrace::bench {

/// As /proc/cpuinfo has it.
inline std::string Processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

}  // namespace millrace::bench
