#include "server/kinds/coq/coq_generate.h"

#include <fmt/core.h>

#include "common/parameters/make_parameter.h"
#include "server/kinds/coq/generator/generator.h"

namespace millrace {
namespace {

constexpr std::uint64_t kMostGeneratorThreads = 4096;

}  // namespace

std::vector<Parameter> CoqGenerateParameters() {
  const GeneratorOptions usual;
  return {
      IntParameter("nodes", usual.nodes, "nodes of all files together, about"),
      IntParameter("files", "files (default: in proportion to the nodes)"),
      IntParameter("definitions", "definitions (default: 1 for 150 nodes)"),
      IntParameter("proof-states",
                   "outcomes of known tactics; 0 for none (default: 1 for 35 nodes)"),
      SeedParameter("seed", usual.seed, "equal seed and options, equal bytes"),
      IntParameter("segments", usual.segments, "segments a file's message has, about", 1, 1000),
      IntParameter("threads", "threads (default: all processors)", 1, kMostGeneratorThreads),
      WithDefault(BoolParameter("force",
                                "replace the dataset that was generated in DIR: deletes "
                                "its .bin files"),
                  false),
  };
}

Result<std::string> GenerateCoq(const std::filesystem::path& dir, const GenerateRequest& request) {
  MILLRACE_ASSIGN_OR_RETURN(const Params params,
                            WithDefaults(CoqGenerateParameters(), request.params));
  GeneratorOptions given;
  given.nodes = params.GetUnsigned("nodes");
  given.files = params.GetUnsignedOr("files", 0);
  given.definitions = params.GetUnsignedOr("definitions", 0);
  given.proof_states = params.GetUnsignedOr("proof-states", 0);
  given.without_proofs = params.is_set("proof-states") && given.proof_states == 0;
  given.seed = params.GetUnsigned("seed");
  given.segments = static_cast<std::uint32_t>(params.GetUnsigned("segments"));
  given.threads = static_cast<std::uint32_t>(params.GetUnsignedOr("threads", 0));
  given.force = params.GetBool("force");
  MILLRACE_ASSIGN_OR_RETURN(GeneratorOptions options, CompleteGeneratorOptions(given));
  if (request.progress) {
    options.progress = [&request, total = options.nodes](std::uint64_t nodes) {
      request.progress(nodes, total);
    };
  }
  GeneratorReport report;
  MILLRACE_RETURN_IF_ERROR(GenerateDataset(dir, options, &report));
  return fmt::format(
      "dataset       {}\n"
      "files         {}\n"
      "nodes         {}\n"
      "edges         {}\n"
      "definitions   {}\n"
      "proof states  {}\n"
      "bytes         {}\n",
      dir.string(), report.files, report.nodes, report.edges, report.definitions,
      report.proof_states, report.bytes);
}

}  // namespace millrace
