// Runs a target over files, without libFuzzer.
//   replay_TARGET [FILE | FOLDER]…   runs its seeds, and all of these
//   replay_TARGET --seeds FOLDER     writes its seeds into FOLDER
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

namespace fs = std::filesystem;

void Run(const std::string& name, const std::string& input) {
  // The name is printed first: if the target aborts, this line says which input it was.
  std::printf("%s (%zu bytes)\n", name.c_str(), input.size());
  std::fflush(stdout);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string Read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--seeds") {
    millrace::fuzz::WriteSeeds(argv[2]);
    return 0;
  }
  const std::vector<std::string> seeds = millrace::fuzz::Seeds();
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::exists(argv[i])) {
      std::fprintf(stderr, "%s: no such file or folder\n", argv[i]);
      return 2;
    }
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (std::size_t i = 0; i < seeds.size(); ++i) Run("seed " + std::to_string(i), seeds[i]);
  for (const fs::path& file : files) Run(file.string(), Read(file));
  std::printf("%zu inputs\n", seeds.size() + files.size());
  return 0;
}
