#include "server/kinds/coq/generator/terms.h"

#include <algorithm>

namespace millrace::generator {
namespace {

// Deeper terms are balanced, so the depth stays near this number plus a logarithm of the size.
constexpr std::uint32_t kMaxTermDepth = 96;
// Most branches of a case. A real case has one for each constructor, up to hundreds.
constexpr std::uint32_t kMaxBranches = 300;

}  // namespace

Reference TermBuilder::Build(std::uint32_t size) {
  binders_.clear();
  depth_ = 0;
  recent_count_ = 0;
  return Term(size);
}

Reference TermBuilder::Term(std::uint32_t size) {
  if (size == 0) return Leaf();
  if (size == 1) return NewLeaf();
  if (depth_ >= kMaxTermDepth) return Apply(size);
  ++depth_;
  const std::uint32_t pick = random_.Below(256);
  Reference term;
  if (pick < 150) {
    term = Apply(size);
  } else if (pick < 190) {
    term = Bind(size, NodeLabel::PROD, EdgeLabel::PROD_TYPE, EdgeLabel::PROD_TERM);
  } else if (pick < 238) {
    term = Bind(size, NodeLabel::LAMBDA, EdgeLabel::LAMBDA_TYPE, EdgeLabel::LAMBDA_TERM);
  } else if (pick < 241) {
    term = LetIn(size);
  } else if (pick < 249 && size >= 4) {
    term = Case(size);
  } else if (pick < 251 && size >= 3) {
    term = Fix(size, true);
  } else if (pick == 251 && size >= 3) {
    term = Fix(size, false);
  } else if (pick < 254) {
    term = Cast(size);
  } else if (proof_states_ != nullptr && !proof_states_->empty() && random_.OneIn(2)) {
    const auto states = static_cast<std::uint32_t>(proof_states_->size());
    term = Evar({(*proof_states_)[random_.Below(states)], 0}, std::min(size - 1, 3u));
  } else {
    term = Apply(size);
  }
  --depth_;
  return term;
}

Reference TermBuilder::Bound(bool may_add) {
  Binder& binder = binders_[random_.Below(static_cast<std::uint32_t>(binders_.size()))];
  if (binder.variable != kNoRef) return {binder.variable, 0};
  if (!may_add) return scope_.AnyDefinition(random_);
  // Real files have one node for each variable of a term, not one for each mention.
  binder.variable = graph_.Add(NodeLabel::REL);
  graph_.SetChildren(binder.variable, {{EdgeLabel::REL_POINTER, {binder.node, 0}}});
  return {binder.variable, 0};
}

Reference TermBuilder::Leaf() {
  const std::uint32_t pick = random_.Below(64);
  if (pick < 14 && !binders_.empty()) return Bound(false);
  if (pick < 26 && variable_count_ > 0) return (*variables_)[random_.Below(variable_count_)];
  if (pick < 34 && recent_count_ > 0) {
    return recent_[random_.Below(std::min(recent_count_, kRecent))];
  }
  if (pick < 37) return scope_.AnyShared(random_);
  return scope_.AnyDefinition(random_);
}

Reference TermBuilder::NewLeaf() {
  const std::uint32_t pick = random_.Below(256);
  if (pick == 0) return Literal();
  if (pick < 150 && !binders_.empty()) return Bound(true);
  if (pick < 152 && self_ != kNoRef) {
    const std::uint32_t node = graph_.Add(NodeLabel::REL);
    graph_.SetChildren(node, {{EdgeLabel::REL_POINTER, {self_, 0}}});
    return {node, 0};
  }
  return Apply(1);
}

Reference TermBuilder::Literal() {
  constexpr std::array kLabels{NodeLabel::INT, NodeLabel::FLOAT, NodeLabel::PRIMITIVE};
  return {graph_.Add(kLabels[random_.Below(kLabels.size())]), 0};
}

Reference TermBuilder::Apply(std::uint32_t size) {
  const std::uint32_t function_size =
      depth_ >= kMaxTermDepth ? (size - 1) / 2 : random_.Below(size);
  const Reference function = Term(function_size);
  const Reference argument = Term(size - 1 - function_size);
  const std::uint32_t node = graph_.Add(NodeLabel::APP);
  graph_.SetChildren(node, {{EdgeLabel::APP_FUN, function}, {EdgeLabel::APP_ARG, argument}});
  recent_[recent_count_++ % kRecent] = {node, 0};
  if (!random_.OneIn(512)) return {node, 0};
  // The same term once more. It is equal up to bisimilarity, so it has the same identity.
  const std::uint32_t copy = graph_.Add(NodeLabel::APP);
  graph_.SetChildren(copy, {{EdgeLabel::APP_FUN, function}, {EdgeLabel::APP_ARG, argument}});
  graph_.node(copy).value = node;
  return {copy, 0};
}

Reference TermBuilder::Bind(std::uint32_t size, NodeLabel label, EdgeLabel type, EdgeLabel body) {
  const std::uint32_t node = graph_.Add(label);
  const std::uint32_t type_size = random_.LowBelow(size) / 2;
  const Reference type_term = Term(type_size);
  binders_.push_back({node, kNoRef});
  const Reference body_term = Term(size - 1 - type_size);
  binders_.pop_back();
  graph_.SetChildren(node, {{type, type_term}, {body, body_term}});
  return {node, 0};
}

Reference TermBuilder::LetIn(std::uint32_t size) {
  const std::uint32_t node = graph_.Add(NodeLabel::LET_IN);
  const std::uint32_t share = (size - 1) / 3;
  const Reference type = Term(share / 2);
  const Reference value = Term(share);
  binders_.push_back({node, kNoRef});
  const Reference body = Term(size - 1 - share - share / 2);
  binders_.pop_back();
  graph_.SetChildren(node, {{EdgeLabel::LET_IN_TYPE, type},
                            {EdgeLabel::LET_IN_DEF, value},
                            {EdgeLabel::LET_IN_TERM, body}});
  return {node, 0};
}

Reference TermBuilder::Case(std::uint32_t size) {
  Reference inductive;
  std::uint32_t constructors = 0;
  if (!scope_.AnyInductive(random_, &inductive, &constructors)) return Apply(size);
  const std::uint32_t branches = std::min({constructors, kMaxBranches, (size - 1) / 2 + 1});
  const std::uint32_t rest = size - 1 - std::min(size - 1, branches);
  const Reference result = Term(rest / 8);
  const Reference subject = Term(rest / 8);
  const std::uint32_t branch_size = (rest - rest / 8 * 2) / branches;
  std::vector<std::uint32_t> branch_nodes(branches);
  for (std::uint32_t i = 0; i < branches; ++i) {
    const Reference body = Term(branch_size);
    branch_nodes[i] = graph_.Add(NodeLabel::CASE_BRANCH);
    const Reference constructor{inductive.node + 1 + i, inductive.dependency};
    graph_.SetChildren(branch_nodes[i],
                       {{EdgeLabel::C_B_CONSTRUCT, constructor}, {EdgeLabel::C_B_TERM, body}});
  }
  const std::uint32_t node = graph_.Add(NodeLabel::CASE);
  graph_.Begin(node);
  graph_.Child(EdgeLabel::CASE_IND, inductive);
  graph_.Child(EdgeLabel::CASE_RETURN, result);
  graph_.Child(EdgeLabel::CASE_TERM, subject);
  for (std::uint32_t branch : branch_nodes) {
    graph_.Child(EdgeLabel::CASE_BRANCH_POINTER, {branch, 0});
  }
  graph_.End(node);
  return {node, 0};
}

Reference TermBuilder::Fix(std::uint32_t size, bool inductive) {
  const NodeLabel fix = inductive ? NodeLabel::FIX : NodeLabel::CO_FIX;
  const NodeLabel function = inductive ? NodeLabel::FIX_FUN : NodeLabel::CO_FIX_FUN;
  const EdgeLabel mutual = inductive ? EdgeLabel::FIX_MUTUAL : EdgeLabel::CO_FIX_MUTUAL;
  const EdgeLabel returned = inductive ? EdgeLabel::FIX_RETURN : EdgeLabel::CO_FIX_RETURN;
  const EdgeLabel type = inductive ? EdgeLabel::FIX_FUN_TYPE : EdgeLabel::CO_FIX_FUN_TYPE;
  const EdgeLabel body = inductive ? EdgeLabel::FIX_FUN_TERM : EdgeLabel::CO_FIX_FUN_TERM;

  const std::uint32_t count = size >= 12 && random_.OneIn(5) ? 2 : 1;
  const std::size_t outside = binders_.size();
  std::array<std::uint32_t, 2> functions{};
  for (std::uint32_t i = 0; i < count; ++i) {
    functions[i] = graph_.Add(function);
    binders_.push_back({functions[i], kNoRef});
  }
  const std::uint32_t share = (size - 1 - count) / count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Reference type_term = Term(share / 5);
    const Reference body_term = Term(share - share / 5);
    graph_.SetChildren(functions[i], {{type, type_term}, {body, body_term}});
  }
  binders_.resize(outside);
  const std::uint32_t node = graph_.Add(fix);
  graph_.Begin(node);
  for (std::uint32_t i = 0; i < count; ++i) graph_.Child(mutual, {functions[i], 0});
  graph_.Child(returned, {functions[random_.Below(count)], 0});
  graph_.End(node);
  return {node, 0};
}

Reference TermBuilder::Cast(std::uint32_t size) {
  const std::uint32_t type_size = (size - 1) / 3;
  const Reference type = Term(type_size);
  const Reference term = Term(size - 1 - type_size);
  const std::uint32_t node = graph_.Add(NodeLabel::CAST);
  graph_.SetChildren(node, {{EdgeLabel::CAST_TYPE, type}, {EdgeLabel::CAST_TERM, term}});
  return {node, 0};
}

Reference TermBuilder::Evar(Reference state, std::uint32_t substitutions) {
  std::array<std::uint32_t, 4> nodes{};
  const std::uint32_t count = variable_count_ == 0 ? 0 : std::min(substitutions, 4u);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Reference target = (*variables_)[random_.Below(variable_count_)];
    const Reference term =
        binders_.empty() ? (*variables_)[random_.Below(variable_count_)] : Bound(true);
    nodes[i] = graph_.Add(NodeLabel::EVAR_SUBST);
    graph_.SetChildren(
        nodes[i], {{EdgeLabel::EVAR_SUBST_TERM, term}, {EdgeLabel::EVAR_SUBST_TARGET, target}});
  }
  const std::uint32_t node = graph_.Add(NodeLabel::EVAR);
  graph_.Begin(node);
  graph_.Child(EdgeLabel::EVAR_SUBJECT, state);
  for (std::uint32_t i = 0; i < count; ++i) {
    graph_.Child(EdgeLabel::EVAR_SUBST_POINTER, {nodes[i], 0});
  }
  graph_.End(node);
  return {node, 0};
}

}  // namespace millrace::generator
