// Measures what orders of examples cost: to make, in memory, and to ask. Limits are measured in the
// same run: one pass over the same values, and reads at random of an array of the same size.
//
// Every result enters the checksum, which is printed.
#include "tests/bench/orders.h"
#include "common/command_line/command_line.h"
#include "tests/bench/processor.h"

#include <string>

#include <fmt/core.h>

namespace {}  // namespace

int main(int argc, char** argv) {
  millrace::bench::OrderOptions options;
  millrace::CommandLine app("Measures what orders of examples cost.", argv[0]);
  app.AddOption("--examples", &options.examples, "number of examples, n")
      .Between(1, 4e9)
      .ShowDefault();
  app.AddOption("--classes", &options.classes, "number of bounds that are chosen")
      .Between(std::uint64_t{1}, std::uint64_t{1024})
      .ShowDefault();
  app.AddOption("--calls", &options.calls, "calls measured each").Positive().ShowDefault();
  app.AddFlag("--json", options.json, "one JSON object a line");
  if (const std::optional<int> code = app.Parse(argc, argv)) return *code;
  const millrace::bench::Report report(options.json);
  report.Note(
      fmt::format("{}, 1 thread, {} examples", millrace::bench::Processor(), options.examples));
  millrace::bench::MeasureBuckets(options, report);
  millrace::bench::MeasurePlaces(options, report);
  return 0;
}
