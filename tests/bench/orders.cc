// Measures what orders of examples cost: to make, in memory, and to ask. Limits are measured in the
// same run: one pass over the same values, and reads at random of an array of the same size.
//
// Every result enters the checksum, which is printed.
#include "tests/bench/orders.h"

#include <fstream>
#include <string>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

namespace {

std::string Processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

}  // namespace

int main(int argc, char** argv) {
  millrace::bench::OrderOptions options;
  CLI::App app("Measures what orders of examples cost.");
  app.add_option("--examples", options.examples, "number of examples, n")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{4'000'000'000}))
      ->capture_default_str();
  app.add_option("--classes", options.classes, "number of bounds that are chosen")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1024}))
      ->capture_default_str();
  app.add_option("--calls", options.calls, "calls measured each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--json", options.json, "one JSON object a line");
  CLI11_PARSE(app, argc, argv);
  const millrace::bench::Report report(options.json);
  report.Note(fmt::format("{}, 1 thread, {} examples", Processor(), options.examples));
  millrace::bench::MeasureBuckets(options, report);
  millrace::bench::MeasurePlaces(options, report);
  return 0;
}
