// Facts about one example for people: a kind of dataset provides them, and tools show them.
//
// Thread-compatible value types.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace millrace {

/// A fact about an example.
struct ExampleFact {
  using Value = std::variant<bool, std::uint64_t, std::string, std::vector<std::string>>;

  std::string name;  // the name for programs: of a-z, 0-9 and _
  Value value;
  /// The name in a line or column of text. Empty: text leaves the fact out.
  std::string word = {};
};

/// An example, as it is described to a person without building it.
struct ExampleDescription {
  std::string title;  // such as the name of a definition, or "node 17"
  std::string file;   // the file that it comes from; empty if the kind has no such files
  std::vector<ExampleFact> facts;

  /// The value of a fact; nullptr if there is no such fact.
  const ExampleFact::Value* Find(std::string_view name) const {
    for (const ExampleFact& fact : facts) {
      if (fact.name == name) return &fact.value;
    }
    return nullptr;
  }
};

}  // namespace millrace
