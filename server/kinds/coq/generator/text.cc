#include "server/kinds/coq/generator/text.h"

#include <array>
#include <string_view>

#include <fmt/core.h>

#include "server/source/random.h"

namespace millrace::generator {
namespace {

using namespace std::string_view_literals;  // NOLINT(google-build-using-namespace)

constexpr std::array kVariables{"n"sv, "m"sv, "H"sv, "IHn"sv, "x"sv, "y"sv, "A"sv, "P"sv,
                                "f"sv, "l"sv, "p"sv, "e"sv,   "b"sv, "s"sv, "R"sv, "α"sv};

constexpr std::array kTerms{"n = m"sv,
                            "nat"sv,
                            "P (S n)"sv,
                            "(forall n : nat, P n)"sv,
                            "x <= y + z"sv,
                            "A"sv,
                            "list A"sv,
                            "(fun x : A => f x)"sv,
                            "length l = n"sv,
                            "True"sv,
                            "R x y"sv,
                            "exists y, R x y"sv,
                            "(x * y)%Z"sv,
                            "b = true"sv,
                            "In x (y :: l)"sv,
                            "n + 0 = n"sv,
                            "∀ α, α"sv,
                            "(A * B)%type"sv,
                            "~ (x < 0)%R"sv,
                            "f (g x) = x"sv,
                            "incl l (l ++ l')"sv,
                            "Some x = None"sv,
                            "le_trans n m p"sv,
                            "eq_refl"sv};

constexpr std::array kTactics{
    "apply"sv,     "intro"sv,        "rewrite"sv,     "destruct"sv, "simpl"sv,   "reflexivity"sv,
    "auto"sv,      "induction"sv,    "exact"sv,       "unfold"sv,   "split"sv,   "assumption"sv,
    "intros"sv,    "case"sv,         "elim"sv,        "red"sv,      "trivial"sv, "eauto"sv,
    "inversion"sv, "discriminate"sv, "constructor"sv, "left"sv,     "right"sv,   "symmetry"sv};

}  // namespace

void AppendVariable(std::uint64_t key, std::string* out) {
  out->append(kVariables[key % kVariables.size()]);
  const std::uint64_t number = (key >> 8) % 16;
  if (number >= 10) return;
  out->push_back(static_cast<char>('0' + number));
}

void AppendTerm(std::uint64_t key, std::string* out) {
  out->append(kTerms[key % kTerms.size()]);
  for (key >>= 8; key % 2 == 1; key >>= 6) {
    out->append(" -> ");
    out->append(kTerms[(key >> 1) % kTerms.size()]);
  }
}

TacticText MakeTacticText(std::uint32_t tactic, std::uint32_t arguments, bool faithful,
                          std::uint64_t key) {
  const std::uint32_t verb = tactic % static_cast<std::uint32_t>(kTactics.size());
  const std::uint32_t variant = tactic / static_cast<std::uint32_t>(kTactics.size());
  TacticText texts;
  texts.text = kTactics[verb];
  if (variant > 0) texts.text += fmt::format("_{}", variant);
  texts.base_text = texts.text;
  texts.interm_text = texts.text;
  for (std::uint32_t i = 0; i < arguments; ++i) {
    std::string name;
    AppendVariable(Mix(key, i), &name);
    texts.text += ' ' + name;
    texts.base_text += " _";
    texts.interm_text += (Mix(key, i) % 3 == 0 ? " @" : " ") + name;
  }
  if (!faithful) texts.interm_text = "(" + texts.interm_text + ") || idtac";
  texts.text_non_anonymous = texts.text;
  texts.exact = texts.text == texts.interm_text;
  return texts;
}

}  // namespace millrace::generator
