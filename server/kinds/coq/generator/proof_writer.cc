#include "server/kinds/coq/generator/proof_writer.h"

#include "server/kinds/coq/generator/text.h"
#include "server/source/random.h"

namespace millrace::generator {

void ProofWriter::Write(const DefinitionExtra& extra,
                        capnp::List<schema::ProofStep>::Builder list) {
  for (std::uint32_t i = 0; i < extra.step_count; ++i) {
    const std::uint32_t number = extra.first_step + i;
    const StepData& step = content_.proofs.steps[number];
    auto builder = list[i];
    if (step.tactic == kNoRef) {
      builder.getTactic().setUnknown();
    } else {
      WriteTactic(step.tactic, Mix(key_ + 1, number), builder.getTactic().initKnown());
    }
    auto outcomes = builder.initOutcomes(step.outcome_count);
    for (std::uint32_t j = 0; j < step.outcome_count; ++j) {
      WriteOutcome(step.first_outcome + j, outcomes[j]);
    }
  }
}

void ProofWriter::WriteTactic(std::uint32_t tactic, std::uint64_t key,
                              schema::Tactic::Builder builder) {
  const bool faithful = key % 32 != 0;
  const TacticText texts =
      MakeTacticText(tactic, ArgumentCount(outline_.seed(), tactic), faithful, key);
  builder.setIdent(static_cast<std::int64_t>(Mix(Mix(outline_.seed(), 0x7AC), tactic)));
  builder.setText(AsText(texts.text));
  builder.setBaseText(AsText(texts.base_text));
  builder.setIntermText(AsText(texts.interm_text));
  builder.setExact(texts.exact);
  builder.setTextNonAnonymous(AsText(texts.text_non_anonymous));
}

void ProofWriter::WriteOutcome(std::uint32_t number, schema::Outcome::Builder builder) {
  const OutcomeData& outcome = content_.proofs.outcomes[number];
  WriteState(outcome.before, builder.initBefore());
  auto after = builder.initAfter(outcome.after_count);
  for (std::uint32_t i = 0; i < outcome.after_count; ++i) {
    WriteState(outcome.first_after + i, after[i]);
  }
  auto term = builder.initTerm();
  term.setDepIndex(outcome.term.dependency);
  term.setNodeIndex(outcome.term.node);
  builder.setTermText(Term(Mix(key_ + 2, number)));
  auto arguments = builder.initTacticArguments(outcome.argument_count);
  for (std::uint32_t i = 0; i < outcome.argument_count; ++i) {
    const ArgumentData& argument = content_.proofs.arguments[outcome.first_argument + i];
    if (!argument.resolvable) {
      arguments[i].setUnresolvable();
    } else {
      auto reference = arguments[i].initTerm();
      reference.setDepIndex(argument.term.dependency);
      reference.setNodeIndex(argument.term.node);
    }
  }
}

void ProofWriter::WriteState(std::uint32_t number, schema::ProofState::Builder builder) {
  const ProofStateData& state = content_.proofs.states[number];
  auto root = builder.initRoot();
  root.setDepIndex(state.root.dependency);
  root.setNodeIndex(state.root.node);
  builder.setId(state.id);
  auto context = builder.initContext(state.context_count);
  auto names = builder.initContextNames(state.context_count);
  auto texts = builder.initContextText(state.context_count);
  state_text_.clear();
  for (std::uint32_t i = 0; i < state.context_count; ++i) {
    const Reference node = content_.proofs.contexts[state.first_context + i];
    context[i].setDepIndex(node.dependency);
    context[i].setNodeIndex(node.node);
    const std::uint64_t key = NodeKey(outline_, content_, node);
    text_.clear();
    AppendVariable(key, &text_);
    names.set(i, AsText(text_));
    text_ += " : ";
    AppendTerm(key, &text_);
    texts.set(i, AsText(text_));
    if (i > 0) state_text_ += ", ";
    state_text_ += text_;
  }
  const capnp::Text::Reader conclusion = Term(NodeKey(outline_, content_, state.goal) + 1);
  builder.setConclusionText(conclusion);
  state_text_ += " |- ";
  state_text_ += text_;
  builder.setText(AsText(state_text_));
}

capnp::Text::Reader ProofWriter::Term(std::uint64_t key) {
  text_.clear();
  AppendTerm(key, &text_);
  return AsText(text_);
}

}  // namespace millrace::generator
