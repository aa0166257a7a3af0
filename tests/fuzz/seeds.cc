#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz.h"

namespace millrace::fuzz {

void WriteSeeds(const std::string& folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const std::string& seed : Seeds()) {
    const std::string name = "seed" + std::to_string(number++);
    std::ofstream(std::filesystem::path(folder) / name, std::ios::binary) << seed;
  }
}

}  // namespace millrace::fuzz
