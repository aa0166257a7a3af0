#include "server/pipeline/filters.h"

namespace millrace {

bool PassesFilters(const Source& source, const PlanDraft& draft, ExampleId example) {
  if (draft.filter.exclude_not_faithful && !source.Faithful(example)) return false;
  if (draft.filter.exclude_none_arguments && source.HasNoneArgument(example)) return false;
  for (const ExamplePredicate& predicate : draft.predicates) {
    if (!predicate(source, example)) return false;
  }
  return true;
}

}  // namespace millrace
