#include "server/kinds/coq/index/index_check.h"

#include <algorithm>
#include <vector>

#include <fmt/core.h>

namespace millrace {
namespace {

Status Bad(const char* section, std::size_t record, const char* what) {
  return DataLoss(
      fmt::format("index: record {} of `{}` {}; build it again with `millrace index "
                  "--force`",
                  record, section, what));
}

template <class T>
bool Holds(std::span<const T> all, std::uint64_t first, std::uint64_t count) {
  return first <= all.size() && count <= all.size() - first;
}
template <class T>
bool Holds(std::span<const T> all, Slice slice) {
  return Holds(all, slice.first, slice.count);
}

/// Checks that slices follow one another without gaps. Empty slices are ignored.
class Row {
 public:
  bool Continues(Slice slice) {
    if (slice.count == 0) return true;
    if (slice.first != next_) return false;
    next_ += slice.count;
    return true;
  }
  std::uint64_t next() const { return next_; }

 private:
  std::uint64_t next_ = 0;
};

class Checker {
 public:
  explicit Checker(const DatasetIndex& index) : index_(index) {}

  Status Run() {
    MILLRACE_RETURN_IF_ERROR(CheckFiles());
    MILLRACE_RETURN_IF_ERROR(CheckDefinitions());
    MILLRACE_RETURN_IF_ERROR(CheckClusters());
    MILLRACE_RETURN_IF_ERROR(CheckSteps());
    MILLRACE_RETURN_IF_ERROR(CheckOutcomes());
    MILLRACE_RETURN_IF_ERROR(
        CheckNumbers("required_files", index_.required_files(), index_.files().size()));
    MILLRACE_RETURN_IF_ERROR(
        CheckNumbers("cluster_members", index_.cluster_members(), definitions()));
    return CheckNumbers("spines", index_.spines(), definitions());
  }

 private:
  std::size_t definitions() const { return index_.definitions().size(); }

  Status CheckFiles() {
    Row row;
    for (std::size_t f = 0; f < index_.files().size(); ++f) {
      const FileRecord& file = index_.files()[f];
      if (!row.Continues(file.definitions) || !Holds(index_.definitions(), file.definitions)) {
        return Bad("files", f, "names definitions of other files");
      }
      if (!Holds(index_.spines(), file.spine)) return Bad("files", f, "has no spine there");
      if (file.representative != kNoRef && (file.representative >= definitions() ||
                                           index_.definitions()[file.representative].file != f)) {
        return Bad("files", f, "has a representative of another file");
      }
      if (file.node_count > index_.bounds().max_file_nodes) {
        return Bad("files", f, "has more nodes than `bounds` says");
      }
      MILLRACE_RETURN_IF_ERROR(CheckForest(file, static_cast<std::uint32_t>(f)));
      MILLRACE_RETURN_IF_ERROR(CheckSpine(file, f));
    }
    if (row.next() != definitions()) return Bad("definitions", row.next(), "is of no file");
    return OkStatus();
  }

  /// Checks that enter, exit and depth describe the forest given by `previous`.
  Status CheckForest(const FileRecord& file, std::uint32_t number) {
    const std::uint32_t first = file.definitions.first;
    const auto all = Sub(index_.definitions(), file.definitions);
    // Sorts definitions by `enter`. Each must have its own place, after that of its previous
    // definition.
    by_enter_.assign(all.size(), kNoRef);
    for (std::uint32_t d = 0; d < all.size(); ++d) {
      const DefinitionRecord& definition = all[d];
      if (definition.file != number || definition.node >= file.node_count) {
        return Bad("definitions", first + d, "is of another file");
      }
      if (definition.enter >= all.size() || by_enter_[definition.enter] != kNoRef) {
        return Bad("definitions", first + d, "has a wrong place in its forest");
      }
      by_enter_[definition.enter] = d;
      if (definition.previous == kNoRef) {
        if (definition.depth != 0) return Bad("definitions", first + d, "has a wrong depth");
        continue;
      }
      if (definition.previous < first || definition.previous - first >= all.size()) {
        return Bad("definitions", first + d, "follows one of another file");
      }
      const DefinitionRecord& previous = all[definition.previous - first];
      if (definition.depth == 0 || definition.depth - 1 != previous.depth ||
          definition.enter <= previous.enter) {
        return Bad("definitions", first + d, "has a wrong depth or place");
      }
    }
    // Goes from the leaves up: `exit` must lie directly behind all descendants.
    below_.assign(all.size(), 1);
    for (std::size_t enter = all.size(); enter-- > 0;) {
      const std::uint32_t d = by_enter_[enter];
      const DefinitionRecord& definition = all[d];
      if (definition.exit != definition.enter + below_[d]) {
        return Bad("definitions", first + d, "has a wrong end in its forest");
      }
      if (definition.previous == kNoRef) continue;
      below_[definition.previous - first] += below_[d];
      if (definition.exit > all[definition.previous - first].exit) {
        return Bad("definitions", first + d, "lies outside the one before it");
      }
    }
    return OkStatus();
  }

  /// Checks that the spine is the chain from the representative backward, and nothing else.
  Status CheckSpine(const FileRecord& file, std::size_t f) const {
    std::uint32_t at = file.representative;
    for (const std::uint32_t definition : Sub(index_.spines(), file.spine)) {
      if (definition != at || at == kNoRef)
        return Bad("files", f, "has a spine that is not its own");
      at = index_.definitions()[at].previous;
    }
    return at == kNoRef ? OkStatus() : Bad("files", f, "has a spine that ends early");
  }

  Status CheckDefinitions() const {
    Row row;
    for (std::size_t d = 0; d < definitions(); ++d) {
      const DefinitionRecord& definition = index_.definitions()[d];
      if (definition.kind > DefinitionKind::kTacticalSectionConstant ||
          definition.cluster >= index_.clusters().size() ||
          !Holds(index_.required_files(), definition.required_files)) {
        return Bad("definitions", d, "has a kind, cluster or required files that do not exist");
      }
      if (!row.Continues(definition.steps) || !Holds(index_.steps(), definition.steps)) {
        return Bad("definitions", d, "names steps of others");
      }
      for (const StepRecord& step : Sub(index_.steps(), definition.steps)) {
        if (step.definition != d) return Bad("definitions", d, "names steps of others");
      }
    }
    if (row.next() != index_.steps().size()) return Bad("steps", row.next(), "is of no definition");
    return OkStatus();
  }

  Status CheckClusters() const {
    Row row;
    for (std::size_t c = 0; c < index_.clusters().size(); ++c) {
      const ClusterRecord& cluster = index_.clusters()[c];
      if (cluster.file >= index_.files().size() || cluster.representative >= definitions() ||
          index_.definitions()[cluster.representative].file != cluster.file) {
        return Bad("clusters", c, "has a representative of another file");
      }
      if (!row.Continues(cluster.members) || !Holds(index_.cluster_members(), cluster.members) ||
          cluster.members.count == 0 || cluster.members.count > index_.bounds().max_cluster) {
        return Bad("clusters", c, "has members of others, none, or more than `bounds` says");
      }
    }
    return OkStatus();
  }

  Status CheckSteps() const {
    Row row;
    for (std::size_t s = 0; s < index_.steps().size(); ++s) {
      const StepRecord& step = index_.steps()[s];
      if (step.tactic >= index_.tactics().size()) return Bad("steps", s, "has no such tactic");
      if (!row.Continues(step.outcomes) || !Holds(index_.outcomes(), step.outcomes)) {
        return Bad("steps", s, "names outcomes of others");
      }
      if (step.step > index_.bounds().max_step ||
          step.text.bytes > index_.bounds().max_text_bytes) {
        return Bad("steps", s, "goes beyond `bounds`");
      }
      for (const OutcomeRecord& outcome : Sub(index_.outcomes(), step.outcomes)) {
        if (outcome.step != s) return Bad("steps", s, "names outcomes of others");
      }
    }
    if (row.next() != index_.outcomes().size()) return Bad("outcomes", row.next(), "is of no step");
    return OkStatus();
  }

  Status CheckOutcomes() const {
    const IndexBounds& bounds = index_.bounds();
    for (std::size_t o = 0; o < index_.outcomes().size(); ++o) {
      const OutcomeRecord& outcome = index_.outcomes()[o];
      if (!Holds(index_.context_nodes(), outcome.first_context, outcome.context_count) ||
          !Holds(index_.arguments(), outcome.first_argument, outcome.argument_count)) {
        return Bad("outcomes", o, "has a context or arguments that do not exist");
      }
      if (outcome.context_count > bounds.max_context ||
          outcome.argument_count > bounds.max_arguments ||
          outcome.text.bytes > bounds.max_text_bytes) {
        return Bad("outcomes", o, "goes beyond `bounds`");
      }
    }
    return OkStatus();
  }

  static Status CheckNumbers(const char* section, std::span<const std::uint32_t> numbers,
                             std::size_t end) {
    const auto bad =
        std::find_if(numbers.begin(), numbers.end(), [end](std::uint32_t n) { return n >= end; });
    if (bad == numbers.end()) return OkStatus();
    return Bad(section, static_cast<std::size_t>(bad - numbers.begin()), "does not exist");
  }

  const DatasetIndex& index_;
  std::vector<std::uint32_t> by_enter_;
  std::vector<std::uint32_t> below_;
};

}  // namespace

Status CheckRecords(const DatasetIndex& index) { return Checker(index).Run(); }

}  // namespace millrace
