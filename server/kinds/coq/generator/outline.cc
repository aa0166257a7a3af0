#include "server/kinds/coq/generator/outline.h"

#include <algorithm>
#include <regex>

#include <fmt/core.h>

#include "server/source/random.h"

namespace millrace::generator {
namespace {

constexpr std::uint64_t kMaxGeneratedFiles = 1u << 20;
// The encoding limits a list to 2^29 words, and a node has three words.
constexpr std::uint64_t kMaxNodesOfFile = 1u << 26;
constexpr std::uint64_t kMaxNodes = 4'000'000'000;
constexpr std::uint64_t kMaxProofStates = 4'000'000'000;
// A file's weight lies between 1 and this, before the number of its proofs is taken into account.
constexpr std::uint32_t kMaxWeight = 100;

enum Purpose : std::uint64_t { kFile = 1, kWeight, kProofWeight, kDependencies };

/// The share of `total` that belongs to the range [from, to) of `weight`. The shares of
/// neighbouring ranges add up to `total`.
std::uint64_t ShareOf(std::uint64_t total, std::uint64_t from, std::uint64_t to,
                      std::uint64_t weight) {
  __extension__ using Wide = unsigned __int128;
  if (weight == 0) return 0;
  return static_cast<std::uint64_t>(Wide{total} * to / weight - Wide{total} * from / weight);
}

std::uint64_t DefaultFiles(std::uint64_t nodes) {
  constexpr std::uint64_t kSmall = 1'000'000;
  if (nodes <= kSmall) return std::clamp<std::uint64_t>(nodes / 20'000, 4, 50);
  return 50 + (nodes - kSmall) / 50'000;
}

}  // namespace

std::uint32_t FilePlan::shared() const {
  if (definitions == 0) return 0;
  const std::uint32_t others = nodes > definitions + kAtoms ? nodes - definitions - kAtoms : 0;
  return kAtoms + std::min(64u, others / 32);
}

Outline::Outline(const GeneratorOptions& options)
    : seed_(options.seed),
      tactics_(static_cast<std::uint32_t>(
          std::clamp<std::uint64_t>(options.proof_states / 64, 16, 4000))),
      files_(options.files) {
  SpreadDefinitions(options.definitions);
  SpreadStatesAndNodes(options.proof_states, options.nodes);
}

std::uint64_t Outline::Key(std::uint32_t number) const { return Mix(Mix(seed_, kFile), number); }

bool Outline::OnlyImports(std::uint32_t number) const {
  return number % kPackageFiles == kPackageFiles - 1;
}

void Outline::SpreadDefinitions(std::uint64_t definitions) {
  std::vector<std::uint32_t> weights(files_.size(), 0);
  std::uint64_t weight = 0;
  std::uint64_t with_definitions = 0;
  for (std::uint32_t i = 0; i < files(); ++i) {
    if (OnlyImports(i) || with_definitions == definitions) continue;
    weights[i] = Random(Mix(Mix(seed_, kWeight), i)).HeavyTail(4, 100, kMaxWeight);
    weight += weights[i];
    files_[i].definitions = 1;
    ++with_definitions;
  }
  const std::uint64_t rest = definitions - with_definitions;
  std::uint64_t before = 0;
  for (std::uint32_t i = 0; i < files(); ++i) {
    files_[i].definitions +=
        static_cast<std::uint32_t>(ShareOf(rest, before, before + weights[i], weight));
    before += weights[i];
  }
}

void Outline::SpreadStatesAndNodes(std::uint64_t states, std::uint64_t nodes) {
  // One file in five has no proofs. The other files get different shares.
  std::vector<std::uint32_t> proofs(files_.size(), 0);
  std::uint64_t state_weight = 0;
  std::uint64_t node_weight = 0;
  for (std::uint32_t i = 0; i < files(); ++i) {
    if (files_[i].definitions == 0) continue;
    const std::uint32_t share = Random(Mix(Mix(seed_, kProofWeight), i)).Below(5);
    proofs[i] = state_weight == 0 ? std::max(share, 1u) : share;
    state_weight += std::uint64_t{files_[i].definitions} * proofs[i];
    node_weight += std::uint64_t{files_[i].definitions} * (2 + proofs[i]);
  }
  std::uint64_t states_before = 0;
  std::uint64_t nodes_before = 0;
  for (std::uint32_t i = 0; i < files(); ++i) {
    FilePlan& outline = files_[i];
    if (outline.definitions == 0) continue;
    const std::uint64_t states_here =
        states_before + std::uint64_t{outline.definitions} * proofs[i];
    const std::uint64_t nodes_here =
        nodes_before + std::uint64_t{outline.definitions} * (2 + proofs[i]);
    outline.states =
        static_cast<std::uint32_t>(ShareOf(states, states_before, states_here, state_weight));
    outline.nodes =
        static_cast<std::uint32_t>(ShareOf(nodes, nodes_before, nodes_here, node_weight));
    outline.nodes = std::max(outline.nodes, outline.definitions + kAtoms);
    states_before = states_here;
    nodes_before = nodes_here;
  }
}

bool Outline::IsName(const std::string& name) {
  static const std::regex pattern(fmt::format("{}/p[0-9]{{3,}}(/f[0-9]{{2}})?\\.bin", kTopFolder));
  return std::regex_match(name, pattern);
}

std::string Outline::Name(std::uint32_t number) const {
  const std::uint32_t package = number / kPackageFiles;
  if (OnlyImports(number)) return fmt::format("{}/p{:03}.bin", kTopFolder, package);
  return fmt::format("{}/p{:03}/f{:02}.bin", kTopFolder, package, number % kPackageFiles);
}

std::string Outline::Module(std::uint32_t number) const {
  const std::uint32_t package = number / kPackageFiles;
  if (OnlyImports(number)) return fmt::format("Generated.P{:03}", package);
  return fmt::format("Generated.P{:03}.F{:02}", package, number % kPackageFiles);
}

std::vector<std::uint32_t> Outline::Dependencies(std::uint32_t number) const {
  Random random(Mix(Mix(seed_, kDependencies), number));
  std::vector<std::uint32_t> dependencies{number};
  const auto add = [&dependencies](std::uint32_t other) {
    if (std::find(dependencies.begin(), dependencies.end(), other) == dependencies.end()) {
      dependencies.push_back(other);
    }
  };
  const std::uint32_t package = number / kPackageFiles;
  const std::uint32_t earlier = number % kPackageFiles;
  if (earlier > 0) {
    const std::uint32_t count = random.HeavyTail(1, 130, earlier);
    for (std::uint32_t i = 0; i < count; ++i) add(number - 1 - random.LowBelow(earlier));
  }
  if (package > 0) {
    const std::uint32_t parent = (package - 1) / 3 * kPackageFiles;
    const std::uint32_t count = 1 + random.Below(3);
    for (std::uint32_t i = 0; i < count; ++i) add(parent + random.Below(kPackageFiles));
    for (std::uint32_t i = random.Below(3); i > 0; --i) add(random.LowBelow(kPackageFiles));
  }
  return dependencies;
}

}  // namespace millrace::generator

namespace millrace {

Result<GeneratorOptions> CompleteGeneratorOptions(const GeneratorOptions& options) {
  using namespace generator;  // NOLINT(google-build-using-namespace): the limits above
  GeneratorOptions all = options;
  if (all.nodes == 0 || all.nodes > kMaxNodes) {
    return InvalidArgument(
        fmt::format("nodes must be from 1 to {}, got {}", kMaxNodes, options.nodes));
  }
  if (all.files == 0) all.files = DefaultFiles(all.nodes);
  if (all.files > kMaxGeneratedFiles) {
    return InvalidArgument(
        fmt::format("at most {} files, got {}", kMaxGeneratedFiles, options.files));
  }
  if (all.files > all.nodes) {
    return InvalidArgument(
        fmt::format("at most as many files as nodes ({}), got {}", all.nodes, all.files));
  }
  if (all.definitions == 0) all.definitions = std::max<std::uint64_t>(1, all.nodes / 150);
  if (all.without_proofs) {
    all.proof_states = 0;
  } else if (all.proof_states == 0) {
    all.proof_states = std::max<std::uint64_t>(1, all.nodes / 35);
  }
  if (all.definitions > all.nodes) {
    return InvalidArgument(fmt::format(
        "each definition is a node: {} definitions do not fit into {} nodes; ask for more nodes",
        all.definitions, all.nodes));
  }
  if (all.proof_states > kMaxProofStates) {
    return InvalidArgument(
        fmt::format("at most {} proof states, got {}", kMaxProofStates, all.proof_states));
  }
  if (all.segments < 1 || all.segments > 1000) {
    return InvalidArgument(fmt::format("segments must be from 1 to 1000, got {}", all.segments));
  }
  // A file's weight decides how many nodes it gets. The largest file has a few times the mean.
  const Outline outline(all);
  for (std::uint32_t i = 0; i < outline.files(); ++i) {
    if (outline.file(i).nodes > kMaxNodesOfFile) {
      return InvalidArgument(
          fmt::format("a file can have at most {} nodes, and one would have {}; "
                      "ask for more files than {}",
                      kMaxNodesOfFile, outline.file(i).nodes, all.files));
    }
  }
  return all;
}

}  // namespace millrace
