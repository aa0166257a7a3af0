#include "client/cli/consume/batch_log.h"

#include <iterator>

#include <fmt/core.h>

namespace millrace::cli {

std::string BatchLogLine(const StepArithmetic& steps, Position at, std::uint32_t rank,
                         Digest128 hash, const BatchInfo& info, const DropReasonNames& names) {
  std::string line =
      fmt::format(R"({{"epoch":{},"step":{},"rank":{},"ordinal":{},"hash":"{}","examples":[)",
                  at.epoch, steps.Step(at), rank, steps.Ordinal(at, rank), hash.ToHex());
  const char* separator = "";
  for (const ExampleId id : info.example_ids) {
    fmt::format_to(std::back_inserter(line), "{}{}", separator, id.value());
    separator = ",";
  }
  line += R"(],"dropped":[)";
  separator = "";
  for (const DroppedExample& dropped : info.dropped) {
    fmt::format_to(std::back_inserter(line), R"({}[{},"{}"])", separator, dropped.id.value(),
                   names.NameOf(dropped.reason));
    separator = ",";
  }
  line += "]}";
  return line;
}

}  // namespace millrace::cli
