// For libFuzzer's programs: `fuzz_TARGET --seeds FOLDER` writes the target's seeds into FOLDER.
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc == 3 && std::string_view((*argv)[1]) == "--seeds") {
    millrace::fuzz::WriteSeeds((*argv)[2]);
    std::exit(0);
  }
  return 0;
}
