// The texts of a generated file: names, types, terms, proof states and tactics, as Coq would print
// them. Each text is made from a key alone, so a local variable has the same name in all proof
// states.
//
// The functions append to `out`.
#pragma once

#include <cstdint>
#include <string>

namespace millrace::generator {

/// Appends a variable's name.
void AppendVariable(std::uint64_t key, std::string* out);
/// Appends a term or type: a few to a hundred bytes of UTF-8.
void AppendTerm(std::uint64_t key, std::string* out);

/// The five texts of a tactic in a step. `faithful`: text and interm_text are the same, apart from
/// '@'.
struct TacticText {
  std::string text;
  std::string base_text;
  std::string interm_text;
  std::string text_non_anonymous;
  bool exact = false;
};
/// `tactic` and its number of arguments decide base_text; `key` stands for the step.
TacticText MakeTacticText(std::uint32_t tactic, std::uint32_t arguments, bool faithful,
                          std::uint64_t key);

}  // namespace millrace::generator
