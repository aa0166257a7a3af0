// What each file of a generated dataset is, before any of it exists: its name, its numbers of
// nodes, definitions and proof states, and the files it depends on. O(files) memory.
//
// Files come in packages (folders) of kPackageFiles. A file depends on earlier ones of its package,
// on some of the parent package and of the first, so that a file's transitive dependencies stay a
// few packages, as in a real library. The last file of a full package only imports the others.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/dataset/coq/generator/generator.h"

namespace millrace::generator {

/// The folder below DIR that holds every file.
inline constexpr char kTopFolder[] = "generated";

inline constexpr std::uint32_t kPackageFiles = 24;

/// Nodes of a file that other files may mention besides definitions: the atoms (sorts and the empty
/// constant) and up to 64 small closed terms, right after the definitions. See SharedKind.
inline constexpr std::uint32_t kAtoms = 5;

struct FilePlan {
  std::uint32_t definitions = 0;
  std::uint32_t states = 0;
  std::uint32_t nodes = 0;  // about

  /// Number of shared nodes; they are the nodes [definitions, definitions + shared()).
  std::uint32_t shared() const;
};

class Plan {
 public:
  /// `options` as CompleteGeneratorOptions gives them.
  explicit Plan(const GeneratorOptions& options);

  std::uint32_t files() const { return static_cast<std::uint32_t>(files_.size()); }
  const FilePlan& file(std::uint32_t number) const { return files_[number]; }
  std::uint64_t seed() const { return seed_; }
  /// Number of tactics that proofs choose from.
  std::uint32_t tactics() const { return tactics_; }
  /// The key of all randomness of a file.
  std::uint64_t Key(std::uint32_t number) const;

  /// The file's name in the dataset, with '/'.
  std::string Name(std::uint32_t number) const;
  /// Whether some generated dataset has a file of this name.
  static bool IsName(const std::string& name);
  /// Its module, as Coq would call it.
  std::string Module(std::uint32_t number) const;
  /// Files by number, each once; the first is the file itself, the others come before it.
  std::vector<std::uint32_t> Dependencies(std::uint32_t number) const;

 private:
  bool OnlyImports(std::uint32_t number) const;
  void SpreadDefinitions(std::uint64_t definitions);
  void SpreadStatesAndNodes(std::uint64_t states, std::uint64_t nodes);

  const std::uint64_t seed_;
  const std::uint32_t tactics_;
  std::vector<FilePlan> files_;
};

}  // namespace millrace::generator
