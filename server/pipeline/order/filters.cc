#include "server/pipeline/order/filters.h"

namespace millrace {

void AddColumnsOfFilters(const PlanDraft& draft, WantedColumns& wanted) {
  wanted.faithful = wanted.faithful || draft.filter.exclude_not_faithful;
  wanted.none_argument = wanted.none_argument || draft.filter.exclude_none_arguments;
}

bool PassesFilters(const Source& source, const PlanDraft& draft, ExampleId example,
                   const ExampleColumns& columns) {
  if (draft.filter.exclude_not_faithful && !columns.faithful) return false;
  if (draft.filter.exclude_none_arguments && columns.none_argument) return false;
  for (const ExamplePredicate& predicate : draft.predicates) {
    if (!predicate(source, example)) return false;
  }
  return true;
}

}  // namespace millrace
