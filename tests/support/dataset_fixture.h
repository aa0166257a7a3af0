// Tiny datasets for tests. A test describes them node by node; they are written as real files with
// several segments.
//
// The structs are values. A TempDir owns its folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "server/kinds/coq/index/dataset_index.h"

namespace millrace::test {

/// A node of a dependency of the file that refers to it; dependency 0 is the file itself.
struct FixtureRef {
  std::uint32_t dependency = 0;
  std::uint32_t node = 0;
};

struct FixtureEdge {
  std::uint32_t label = 0;
  FixtureRef target;
};

struct FixtureNode {
  std::uint32_t tag = 0;  // nodes of definitions get 3
  std::vector<FixtureEdge> children;
  std::int64_t identity = 0;
};

struct FixtureOutcome {
  FixtureRef root;
  std::vector<FixtureRef> context;
  std::vector<std::optional<FixtureRef>> arguments;  // nullopt: unresolvable
  std::string text = "|- True";
};

struct FixtureStep {
  bool known = true;
  std::int64_t ident = 1;
  std::string text = "auto";
  std::string base_text = "auto";
  std::string interm_text = "auto";
  std::vector<FixtureOutcome> outcomes;
};

struct FixtureDefinition {
  std::uint32_t node = 0;
  std::string name;
  std::optional<std::uint32_t> previous;  // number of a node
  std::vector<std::uint16_t> external_previous;
  DefinitionKind kind = DefinitionKind::kManualConstant;
  std::uint32_t cluster = 0;  // number of a node; for inductives, constructors and projections
  std::vector<FixtureStep> steps;
  std::optional<std::uint32_t> discharged;  // number of a node
  std::optional<FixtureRef> substituted;
};

struct FixtureFile {
  std::string name;                       // its path in the dataset
  std::vector<std::string> dependencies;  // other files; the file itself is put before them
  std::vector<FixtureNode> nodes;
  std::vector<FixtureDefinition> definitions;
  std::optional<std::uint32_t> representative;  // number of a node
  std::int64_t version = 15;
  std::uint32_t segment_words = 24;  // approximate; every segment holds at least this many words

  // For bad files. If these are set, they replace the values that follow from the fields above.
  std::optional<std::string> own_name;
  std::optional<std::vector<std::uint32_t>> definition_list;
};

/// The bytes of the file.
std::vector<std::byte> Serialize(const FixtureFile& file);

/// A file with everything in it: a mutual cluster, constants, a proof with known and unknown
/// tactics, contexts, and local, global and unresolvable arguments. It requires the first of
/// `dependencies`.
FixtureFile SampleFile(const std::string& name, const std::vector<std::string>& dependencies = {});

void WriteBytes(const std::filesystem::path& path, const std::vector<std::byte>& bytes);
std::vector<std::byte> ReadBytes(const std::filesystem::path& path);

/// Writes the file below `dir`, and makes the folders that its name contains.
void WriteFixture(const std::filesystem::path& dir, const FixtureFile& file);

/// A new folder, removed together with this object.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace millrace::test
