// The outline of each file of a generated dataset, made before any file exists: its name, its
// numbers of nodes, definitions and proof states, and the files on which it depends. Takes O(files)
// memory.
//
// Files come in packages (folders) of kPackageFiles files. A file depends on earlier files of its
// package, and on some files of the parent package and of the first package. So its transitive
// dependencies stay within a few packages, as in a real library. The last file of a full package
// only imports the others.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/kinds/coq/generator/generator.h"

namespace millrace::generator {

/// The folder below DIR that holds all files.
inline constexpr char kTopFolder[] = "generated";

inline constexpr std::uint32_t kPackageFiles = 24;

/// Number of atoms (sorts and the empty constant). Besides definitions, other files may mention a
/// file's atoms and up to 64 small closed terms. All of these come right after the definitions. See
/// SharedKind.
inline constexpr std::uint32_t kAtoms = 5;

struct FilePlan {
  std::uint32_t definitions = 0;
  std::uint32_t states = 0;
  std::uint32_t nodes = 0;  // approximate

  /// Number of shared nodes. They are the nodes [definitions, definitions + shared()).
  std::uint32_t shared() const;
};

class Outline {
 public:
  /// REQUIRES: `options` come from CompleteGeneratorOptions.
  explicit Outline(const GeneratorOptions& options);

  std::uint32_t files() const { return static_cast<std::uint32_t>(files_.size()); }
  const FilePlan& file(std::uint32_t number) const { return files_[number]; }
  std::uint64_t seed() const { return seed_; }
  /// Number of tactics from which proofs choose.
  std::uint32_t tactics() const { return tactics_; }
  /// The key from which all random numbers of a file are made.
  std::uint64_t Key(std::uint32_t number) const;

  /// The file's name in the dataset, with '/'.
  std::string Name(std::uint32_t number) const;
  /// Whether a generated dataset can have a file of this name.
  static bool IsName(const std::string& name);
  /// The file's module, in the form that Coq uses.
  std::string Module(std::uint32_t number) const;
  /// The files on which a file depends, by number, without repetition. The first is the file
  /// itself; the others come before it in the dataset.
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
