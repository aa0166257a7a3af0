// Defines the function MILLRACE_RECORDED of recorded.h. MILLRACE_RECORDED_MATH is a namespace for
// this copy of the functions: of several that have one name, the linker would keep one.
#include "tests/unit/common/math/recorded.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "common/base/hash.h"

#define math MILLRACE_RECORDED_MATH
#include "common/math/arrays.cc"  // NOLINT(bugprone-suspicious-include)

namespace millrace::test {
namespace {

constexpr std::size_t kValues = 4096;
constexpr int kRounds = 12;

/// Values of every magnitude, and values of those magnitudes at which much happens.
class Inputs {
 public:
  double Next() {
    const std::uint64_t word = Word();
    switch (number_ % 4) {
      case 0:
        return math::internal::FromBits(word);
      case 1:
        return static_cast<double>(static_cast<std::int64_t>(word)) * 0x1p-53;  // -1024 to 1024
      case 2:
        return static_cast<double>(static_cast<std::int64_t>(word)) * 0x1p-62;  // -2 to 2
      default:
        return static_cast<double>(static_cast<std::int64_t>(word % 4001) - 2000) * 0.25;
    }
  }

 private:
  std::uint64_t Word() {  // SplitMix64
    std::uint64_t z = ++number_ * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }

  std::uint64_t number_ = 0;
};

template <class T>
class Recorder {
 public:
  explicit Recorder(Xxh3Stream& stream) : stream_(stream) {}

  void NextInputs(Inputs& inputs) {
    for (T& value : in_) value = static_cast<T>(inputs.Next());
  }
  void Add(void (*of_each)(const T*, T*, std::size_t), T (*function)(T)) {
    of_each(in_, out_, kValues);
    AddOut();
    for (std::size_t i = 0; i < kValues; ++i) out_[i] = function(in_[i]);
    AddOut();
  }

 private:
  void AddOut() {
    for (T& value : out_) {
      if (value != value) value = 0;  // which NaN it is depends on the processor
    }
    stream_.Update(std::as_bytes(std::span(out_, kValues)));
  }

  Xxh3Stream& stream_;
  T in_[kValues] = {};
  T out_[kValues] = {};
};

template <class T>
void Record(Xxh3Stream& stream) {
  Recorder<T> recorder(stream);
  Inputs inputs;
  for (int round = 0; round < kRounds; ++round) {
    recorder.NextInputs(inputs);
    recorder.Add(math::ExpOfEach, math::Exp);
    recorder.Add(math::LogOfEach, math::Log);
    recorder.Add(math::TanhOfEach, math::Tanh);
    recorder.Add(math::SinOfEach, math::Sin);
    recorder.Add(math::CosOfEach, math::Cos);
  }
}

}  // namespace

Digest128 MILLRACE_RECORDED() {
  Xxh3Stream stream;
  Record<double>(stream);
  Record<float>(stream);
  return stream.Finish();
}

}  // namespace millrace::test
