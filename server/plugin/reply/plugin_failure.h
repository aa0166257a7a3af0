// Why an example could not be built.
//
// Value types and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

enum class FailureKind : std::uint8_t {
  kException,  // the plugin raised an exception
  kValue,      // its values do not fit their declaration
  kDeath,      // the process ended
  kTimeout,    // the example took too long; the process was ended
  kMemory,     // the process had too much memory; it was ended
  kNotTried,   // other examples ended too many processes
};

struct PluginFailure {
  FailureKind kind = FailureKind::kException;
  std::string type;        // of the exception: "ValueError"
  std::string message;     // of the exception, or the error
  std::string traceback;   // as Python prints it, without frames of Millrace; may be empty
  std::string last_output;  // the last output of the process; may be empty
  int tries = 0;           // how many processes tried the example here
  friend bool operator==(const PluginFailure&, const PluginFailure&) = default;
};

/// One line: "ValueError: bad length", or "the process ended by signal 11 (Segmentation fault)".
std::string FailureLine(const PluginFailure& failure);

/// Everything for a person: "asr_data:Corpus, example 17: ValueError: …", then the traceback and
/// the last output, if there is any.
std::string DescribeFailure(const PluginFailure& failure, std::string_view object,
                            std::uint64_t example);

/// Text that people and messages can take: bytes that are not UTF-8 are replaced, and so are
/// control characters other than line ends and tabs.
std::string PlainText(std::string_view bytes);

}  // namespace millrace
