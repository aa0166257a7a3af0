// `millrace generate`: writes a made-up dataset.

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>

#include <fmt/core.h>

#include "client/cli/commands.h"
#include "client/cli/numbers.h"
#include "client/cli/progress.h"
#include "server/dataset/coq/generator/generator.h"

namespace millrace::cli {
namespace {

struct GenerateArguments {
  std::filesystem::path dir;
  GeneratorOptions generator;
};

Status Generate(const GenerateArguments& options) {
  MILLRACE_ASSIGN_OR_RETURN(GeneratorOptions generator,
                            CompleteGeneratorOptions(options.generator));
  GeneratorReport report;
  const auto began = std::chrono::steady_clock::now();
  {
    // The progress bar begins with the first file. If the folder cannot be used, the error is then
    // the only line printed.
    std::once_flag begun;
    std::optional<Progress> progress;
    generator.progress = [&](std::uint64_t nodes) {
      std::call_once(begun, [&] { progress.emplace("generating", "nodes", generator.nodes); });
      progress->Add(nodes);
    };
    MILLRACE_RETURN_IF_ERROR(GenerateDataset(options.dir, generator, &report));
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("%s", fmt::format("dataset       {}\n"
                                "files         {}\n"
                                "nodes         {}\n"
                                "edges         {}\n"
                                "definitions   {}\n"
                                "proof states  {}\n"
                                "bytes         {}\n"
                                "seconds       {:.2f}\n",
                                options.dir.string(), report.files, report.nodes, report.edges,
                                report.definitions, report.proof_states, report.bytes, seconds)
                        .c_str());
  return OkStatus();
}

}  // namespace

void AddGenerateCommand(Tool& tool) {
  const auto options = std::make_shared<GenerateArguments>();
  CLI::App* command = tool.Add("generate", "write a made-up dataset with the shapes of real ones",
                               "  millrace generate data\n"
                               "  millrace generate data --nodes 10000000 --seed 7\n"
                               "  millrace generate data --files 20 --definitions 3000 "
                               "--proof-states 10000 --nodes 500000\n",
                               [options] { return Generate(*options); });
  GeneratorOptions& generator = options->generator;
  command->add_option("dir", options->dir, "folder to write to; made if it does not exist")
      ->required()
      ->type_name("DIR");
  command->add_option("--nodes", generator.nodes, "nodes of all files together, about")
      ->transform(WholeNumber())
      ->capture_default_str();
  command->add_option("--files", generator.files, "files (default: in proportion to the nodes)")
      ->transform(WholeNumber());
  command
      ->add_option("--definitions", generator.definitions, "definitions (default: 1 for 150 nodes)")
      ->transform(WholeNumber());
  command
      ->add_option_function<std::uint64_t>(
          "--proof-states",
          [&generator](std::uint64_t count) {
            generator.proof_states = count;
            generator.without_proofs = count == 0;
          },
          "outcomes of known tactics; 0 for none (default: 1 for 35 nodes)")
      ->transform(WholeNumber());
  command->add_option("--seed", generator.seed, "equal seed and options, equal bytes")
      ->transform(WholeNumber())
      ->capture_default_str();
  command->add_option("--segments", generator.segments, "segments a file's message has, about")
      ->transform(WholeNumber(1, 1000))
      ->capture_default_str();
  command->add_option("--threads", generator.threads, "threads (default: all processors)")
      ->transform(WholeNumber(1, kMaxThreads));
  command->add_flag("--force", generator.force,
                    "replace the dataset that was generated in DIR: deletes its .bin files");
}

}  // namespace millrace::cli
