// The texts of a generated file: names, types, terms, proof states and tactics, as Coq would print
// them. Each is made from a key alone, so that a local variable has one name in all proof states.
//
// Functions append to `out`.
#pragma once

#include <cstdint>
#include <string>

namespace millrace::generator {

/// A variable's name.
void AppendVariable(std::uint64_t key, std::string* out);
/// A term or type, from a few to a hundred bytes of UTF-8.
void AppendTerm(std::uint64_t key, std::string* out);

/// The five texts of a tactic in a step. `faithful`: text and interm_text are the same but for '@'.
struct TacticText {
  std::string text;
  std::string base_text;
  std::string interm_text;
  std::string text_non_anonymous;
  bool exact = false;
};
/// `tactic` and its number of arguments fix base_text; `key` the step.
TacticText MakeTacticText(std::uint32_t tactic, std::uint32_t arguments, bool faithful,
                          std::uint64_t key);

}  // namespace millrace::generator
