// tf.train.Example: the parser accepts what protobuf accepts, and reads the same values.
#include <random>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz.h"
#include "tests/support/example_oracle.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  const std::string difference =
      test::DifferenceFromProtobuf({reinterpret_cast<const char*>(data), size});
  fuzz::Require(difference.empty(), difference);
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  std::vector<std::string> seeds;
  std::mt19937_64 random(1);
  for (int i = 0; i < 10; ++i) {
    seeds.push_back(test::WriteByProtobuf(test::RandomExample(random)));
    seeds.push_back(test::RandomEncoding(random));
    seeds.push_back(test::RandomEncoding(random));
  }
  return seeds;
}
