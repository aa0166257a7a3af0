#include "server/kinds/coq/generator/scope.h"

#include <algorithm>

namespace millrace::generator {
namespace {

// The kinds of shared nodes repeat with this period.
constexpr std::uint32_t kPeriod = 8;

}  // namespace

SharedKind KindOfShared(std::uint32_t number) {
  if (number < kAtoms) return static_cast<SharedKind>(number);
  const std::uint32_t term = number - kAtoms;
  if (term % kPeriod == kPeriod - 2) return SharedKind::kContextElement;
  if (term % kPeriod == kPeriod - 1) return SharedKind::kProofState;
  if (term % 32 == 3) return SharedKind::kInt;
  if (term % 32 == 19) return SharedKind::kFloat;
  if (term % 32 == 27) return SharedKind::kPrimitive;
  return SharedKind::kTerm;
}

Scope::Scope(const Outline& outline, std::uint32_t file)
    : outline_(outline), dependencies_(outline.Dependencies(file)) {
  tables_.reserve(dependencies_.size());
  for (std::uint32_t dependency : dependencies_) {
    tables_.push_back(MakeDefinitionTable(outline, dependency));
  }
  if (own().all.empty()) return;

  // A definition that begins a chain requires most dependencies. The other dependencies are
  // required in the middle of the spine, or only mentioned.
  Random random(Mix(outline.Key(file), 0x5C0));
  std::vector<std::uint16_t> at_once;
  std::vector<std::uint32_t> late_places;
  for (std::uint32_t i : own().spine) {
    if (own().all[i].cluster == i && own().ClusterSize(i) == 1) late_places.push_back(i);
  }
  for (std::uint16_t d = 1; d < dependencies_.size(); ++d) {
    const std::uint32_t pick = random.Below(16);
    const bool late = pick == 0 && !late_places.empty();
    if (late) {
      const auto places = static_cast<std::uint32_t>(late_places.size());
      requirements_.push_back({late_places[random.Below(places)], d});
    } else if (pick != 1 || at_once.empty()) {
      at_once.push_back(d);
    }
    if (!late && !tables_[d].spine.empty()) visible_.push_back(d);
  }
  for (std::uint32_t i = 0; i < own().all.size(); ++i) {
    if (own().all[i].previous != kNoRef) continue;
    for (std::uint16_t d : at_once) requirements_.push_back({i, d});
  }
  std::stable_sort(
      requirements_.begin(), requirements_.end(),
      [](const Requirement& a, const Requirement& b) { return a.definition < b.definition; });
}

void Scope::Enter(std::uint32_t first) {
  const std::uint32_t size = own().ClusterSize(first);
  const std::uint32_t before = own().all[size == 1 ? first : first + 1].previous;
  while (!chain_.empty() && chain_.back() != before) chain_.pop_back();
  for (; next_requirement_ < requirements_.size(); ++next_requirement_) {
    const Requirement& requirement = requirements_[next_requirement_];
    if (requirement.definition >= first + size) break;
    const std::uint16_t d = requirement.dependency;
    if (tables_[d].spine.empty()) continue;
    if (std::find(visible_.begin(), visible_.end(), d) == visible_.end()) visible_.push_back(d);
  }
}

void Scope::Leave(std::uint32_t first) {
  const std::uint32_t size = own().ClusterSize(first);
  for (std::uint32_t i = first + 1; i < first + size; ++i) chain_.push_back(i);
  chain_.push_back(first);
  for (std::uint32_t i = first; i < first + size; ++i) {
    if (own().all[i].kind == DefinitionKind::kInductive && own().ConstructorCount(i) > 0) {
      chain_inductives_.push_back(i);
    }
  }
}

Reference Scope::SharedOf(std::uint16_t dependency, std::uint32_t number) const {
  return {outline_.file(dependencies_[dependency]).definitions + number, dependency};
}

Reference Scope::Atom(SharedKind kind) const {
  return SharedOf(0, static_cast<std::uint32_t>(kind));
}

Reference Scope::ForeignDefinition(Random& random) const {
  const auto d = visible_[random.LowBelow(static_cast<std::uint32_t>(visible_.size()))];
  const std::vector<std::uint32_t>& spine = tables_[d].spine;
  return {spine[random.LowBelow(static_cast<std::uint32_t>(spine.size()))], d};
}

Reference Scope::AnyDefinition(Random& random) const {
  const std::uint32_t pick = random.Below(1024);
  const auto before = static_cast<std::uint32_t>(chain_.size());
  if (pick == 0 && before > 0) return {random.Below(chain_.back() + 1), 0};  // also off the spine
  if (before > 0 && (pick < 480 || visible_.empty())) {
    if (pick % 2 == 0) return {chain_[random.LowBelow(before)], 0};
    return {chain_[before - 1 - (random.HeavyTail(1, 128, before) - 1)], 0};
  }
  if (!visible_.empty()) return ForeignDefinition(random);
  return Atom(static_cast<SharedKind>(random.Below(4)));
}

bool Scope::AnyInductive(Random& random, Reference* inductive, std::uint32_t* constructors) const {
  if (!chain_inductives_.empty() && (visible_.empty() || random.OneIn(2))) {
    const auto count = static_cast<std::uint32_t>(chain_inductives_.size());
    *inductive = {chain_inductives_[random.LowBelow(count)], 0};
  } else {
    if (visible_.empty()) return false;
    const auto d = visible_[random.LowBelow(static_cast<std::uint32_t>(visible_.size()))];
    const std::vector<std::uint32_t>& inductives = tables_[d].inductives;
    if (inductives.empty()) return false;
    *inductive = {inductives[random.LowBelow(static_cast<std::uint32_t>(inductives.size()))], d};
  }
  *constructors = tables_[inductive->dependency].ConstructorCount(inductive->node);
  return true;
}

Reference Scope::AnyShared(Random& random) const {
  const bool foreign = !visible_.empty() && random.OneIn(4);
  const std::uint16_t d = foreign
                              ? visible_[random.Below(static_cast<std::uint32_t>(visible_.size()))]
                              : std::uint16_t{0};
  std::uint32_t number = random.LowBelow(outline_.file(dependencies_[d]).shared());
  const SharedKind kind = KindOfShared(number);
  if (kind == SharedKind::kContextElement || kind == SharedKind::kProofState) number -= 2;
  return SharedOf(d, number);
}

bool Scope::ForeignProofState(Random& random, Reference* state) const {
  if (visible_.empty()) return false;
  const auto d = visible_[random.Below(static_cast<std::uint32_t>(visible_.size()))];
  const std::uint32_t periods = (outline_.file(dependencies_[d]).shared() - kAtoms) / kPeriod;
  if (periods == 0) return false;
  *state = SharedOf(d, kAtoms + random.Below(periods) * kPeriod + kPeriod - 1);
  return true;
}

}  // namespace millrace::generator
