#include "server/kinds/coq/generator/proofs.h"

#include <algorithm>

namespace millrace::generator {
namespace {

// Sizes in nodes. They give closures of proof states, with stop_at_definitions, about 31 nodes on
// average and sometimes more than 1,024.
constexpr std::uint32_t kGoalSize = 3;
constexpr std::uint32_t kGoalTail = 64;  // of 256: the probability of each further octave
constexpr std::uint32_t kMaxGoal = 500;
constexpr std::uint32_t kGoalsPerLargeOne = 1500;
constexpr std::uint32_t kLargeGoal = 700;  // up to four times this size
constexpr std::uint32_t kTypeSize = 1;
constexpr std::uint32_t kTypeTail = 80;
constexpr std::uint32_t kMaxType = 300;
constexpr std::uint32_t kMaxNewContext = 300;

}  // namespace

std::uint32_t ArgumentCount(std::uint64_t seed, std::uint32_t tactic) {
  const std::uint64_t pick = Mix(Mix(seed, 0xA26), tactic) % 32;
  if (pick < 18) return 0;
  if (pick < 28) return 1;
  return pick < 31 ? 2 : 5;
}

ProofBuilder::ProofBuilder(const Outline& outline, std::uint32_t file, GraphBuffer& graph,
                           Random& random, const Scope& scope, TermBuilder& terms, ProofData& data,
                           const Budget& budget)
    : outline_(outline),
      graph_(graph),
      random_(random),
      scope_(scope),
      terms_(terms),
      data_(data),
      nodes_per_state_(budget.nodes_per_state),
      slack_(budget.slack),
      edges_reversed_(Mix(outline.Key(file), 0x2EF) % 3 != 0),
      large_context_due_(budget.large_context) {}

void ProofBuilder::Build(Reference statement, std::uint32_t examples) {
  if (examples == 0 && !random_.OneIn(4)) return;  // an unrecorded proof
  began_at_ = graph_.size();
  roots_.clear();
  open_.clear();
  terms_.SetProofStates(&roots_);
  current_ = FirstState(statement);
  open_.push_back(current_);
  if (examples == 0) Step(kNoRef, 1);
  const std::uint64_t end = examples_ + examples;
  while (examples_ < end) {
    const auto left = static_cast<std::uint32_t>(end - examples_);
    // With base 4, the tactics 0 to 3 are the most frequent ones.
    const std::uint32_t tactic = random_.HeavyTail(4, 150, outline_.tactics() + 3) - 4;
    const std::uint32_t pick = random_.Below(256);
    if (pick < 8) {
      Step(kNoRef, random_.Below(3));
    } else if (pick < 11) {
      Step(tactic, 0);
    } else {
      const bool several = left > 1 && pick < 30;
      const std::uint32_t count = several ? random_.HeavyTail(2, 90, std::min(256u, left)) : 1;
      examples_ += count;
      Step(tactic, count);
    }
  }
  nodes_used_ += graph_.size() - began_at_;
  began_at_ = graph_.size();
  terms_.SetProofStates(nullptr);
  terms_.SetContext(nullptr, 0);
}

void ProofBuilder::Step(std::uint32_t tactic, std::uint32_t outcomes) {
  StepData step;
  step.tactic = tactic;
  step.first_outcome = static_cast<std::uint32_t>(data_.outcomes.size());
  step.outcome_count = outcomes;
  data_.steps.push_back(step);
  for (std::uint32_t i = 0; i < outcomes; ++i) Outcome(tactic);
}

std::uint32_t ProofBuilder::NextOpen() {
  if (open_.empty()) return NewState(current_);
  const std::uint32_t state = open_.back();
  open_.pop_back();
  return state;
}

void ProofBuilder::Outcome(std::uint32_t tactic) {
  OutcomeData outcome;
  outcome.before = NextOpen();
  current_ = outcome.before;
  outcome.first_after = static_cast<std::uint32_t>(data_.states.size());
  const std::uint32_t pick = random_.Below(16);
  outcome.after_count = pick < 6 ? 0 : pick < 13 ? 1 : 2;
  for (std::uint32_t i = 0; i < outcome.after_count; ++i) open_.push_back(NewState(outcome.before));

  const ProofStateData& before = data_.states[outcome.before];
  if (outcome.after_count > 0 && MayGrow() && random_.OneIn(3)) {
    UseContext(before);
    outcome.term = terms_.Evar(data_.states[outcome.first_after].root, random_.Below(3));
  } else {
    outcome.term = random_.OneIn(2) ? before.goal : scope_.AnyDefinition(random_);
  }
  outcome.first_argument = static_cast<std::uint32_t>(data_.arguments.size());
  outcome.argument_count =
      tactic == kNoRef ? random_.Below(2) : ArgumentCount(outline_.seed(), tactic);
  Arguments(outcome.argument_count, before);
  data_.outcomes.push_back(outcome);
}

void ProofBuilder::Arguments(std::uint32_t count, const ProofStateData& before) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t pick = random_.Below(128);
    ArgumentData argument;
    if (pick < 6) {
      argument.resolvable = false;
    } else if (pick == 6) {
      argument.term = scope_.AnyShared(random_);  // neither local nor global
    } else if (pick < 70 && before.context_count > 0) {
      argument.term = data_.contexts[before.first_context + random_.Below(before.context_count)];
    } else {
      argument.term = scope_.AnyDefinition(random_);
    }
    data_.arguments.push_back(argument);
  }
}

std::uint32_t ProofBuilder::FirstState(Reference statement) {
  ProofStateData state;
  state.goal = statement;
  state.first_context = static_cast<std::uint32_t>(data_.contexts.size());
  AddRoot(&state);
  data_.states.push_back(state);
  return static_cast<std::uint32_t>(data_.states.size() - 1);
}

bool ProofBuilder::MayGrow() const {
  const std::uint64_t used = nodes_used_ + (graph_.size() - began_at_);
  return used <= examples_ * nodes_per_state_ + slack_;
}

std::uint32_t ProofBuilder::StateOfOtherFile(std::uint32_t parent, Reference root) {
  ProofStateData state = data_.states[parent];
  state.root = root;
  state.first_context = static_cast<std::uint32_t>(data_.contexts.size());
  state.context_count = 1;
  data_.contexts.push_back({root.node - 1, root.dependency});
  data_.states.push_back(state);
  return static_cast<std::uint32_t>(data_.states.size() - 1);
}

std::uint32_t ProofBuilder::NewState(std::uint32_t parent) {
  Reference foreign;
  if (random_.OneIn(256) && scope_.ForeignProofState(random_, &foreign)) {
    return StateOfOtherFile(parent, foreign);
  }
  ProofStateData state = data_.states[parent];
  if (MayGrow()) {
    // A context that came from elsewhere, or is unusually large, is not continued in the next
    // states.
    if (state.root.dependency != 0 || state.context_count > 2 * kMaxNewContext) {
      state.context_count = 0;
    }
    const std::uint32_t pick = random_.Below(256);
    if (pick < 30) state.context_count = random_.Below(state.context_count + 1);
    if (large_context_due_ && pick >= 250) {
      large_context_due_ = false;
      ExtendContext(&state, 1030 + random_.Below(300));
    } else if (pick == 255) {
      ExtendContext(&state, random_.HeavyTail(4, 128, kMaxNewContext));
    } else if (pick >= 120 && random_.Below(4 + state.context_count) < 4) {
      ExtendContext(&state, 1 + random_.Below(2));
    }
    UseContext(state);
    if (pick % 16 < 9) {
      state.goal = terms_.Build(random_.OneIn(kGoalsPerLargeOne)
                                    ? kLargeGoal + random_.Below(3 * kLargeGoal)
                                    : random_.HeavyTail(kGoalSize, kGoalTail, kMaxGoal));
    }
    AddRoot(&state);
  }
  data_.states.push_back(state);
  return static_cast<std::uint32_t>(data_.states.size() - 1);
}

void ProofBuilder::ExtendContext(ProofStateData* state, std::uint32_t count) {
  if (state->first_context + state->context_count != data_.contexts.size()) {
    // Another state's context follows this one. So this context is copied to the end and continues
    // there.
    const std::uint32_t from = state->first_context;
    state->first_context = static_cast<std::uint32_t>(data_.contexts.size());
    for (std::uint32_t i = 0; i < state->context_count; ++i) {
      data_.contexts.push_back(Reference{data_.contexts[from + i]});
    }
  }
  UseContext(*state);
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool twice = state->context_count > 0 && random_.OneIn(1024);
    const Reference element = twice ? data_.contexts.back() : ContextElement();
    data_.contexts.push_back(element);
    variables_.push_back(element);
    ++state->context_count;
  }
}

Reference ProofBuilder::ContextElement() {
  terms_.SetContext(&variables_, static_cast<std::uint32_t>(variables_.size()));
  const bool small = random_.Below(16) < 11 || variables_.size() > kMaxNewContext;
  const Reference type =
      terms_.Build(small ? 0 : random_.HeavyTail(kTypeSize, kTypeTail, kMaxType));
  if (!random_.OneIn(20)) {
    const std::uint32_t node = graph_.Add(NodeLabel::CONTEXT_ASSUM);
    graph_.SetChildren(node, {{EdgeLabel::CONTEXT_DEF_TYPE, type}});
    return {node, 0};
  }
  const Reference value = terms_.Build(0);
  const std::uint32_t node = graph_.Add(NodeLabel::CONTEXT_DEF);
  graph_.SetChildren(node,
                     {{EdgeLabel::CONTEXT_DEF_TERM, value}, {EdgeLabel::CONTEXT_DEF_TYPE, type}});
  return {node, 0};
}

void ProofBuilder::UseContext(const ProofStateData& state) {
  const auto first = data_.contexts.begin() + state.first_context;
  variables_.assign(first, first + state.context_count);
  terms_.SetContext(&variables_, state.context_count);
}

void ProofBuilder::AddRoot(ProofStateData* state) {
  const std::uint32_t node = graph_.Add(NodeLabel::PROOF_STATE);
  graph_.node(node).value = node;
  graph_.Begin(node);
  for (std::uint32_t i = 0; i < state->context_count; ++i) {
    const std::uint32_t place = edges_reversed_ ? state->context_count - 1 - i : i;
    graph_.Child(EdgeLabel::CONTEXT_ELEM, data_.contexts[state->first_context + place]);
  }
  graph_.Child(EdgeLabel::CONTEXT_SUBJECT, state->goal);
  graph_.End(node);
  state->root = {node, 0};
  state->id = node;
  roots_.push_back(node);
}

}  // namespace millrace::generator
