#include "server/dataset/source.h"

namespace millrace {

void Source::ReadColumns(ExampleId first, const WantedColumns& wanted,
                         std::span<ExampleColumns> columns) const {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const ExampleId id(first.value() + i);
    if (wanted.split_identity) columns[i].split_identity = SplitIdentity(id);
    if (wanted.file) columns[i].file = File(id);
    if (wanted.faithful) columns[i].faithful = Faithful(id);
    if (wanted.none_argument) columns[i].none_argument = HasNoneArgument(id);
  }
}

}  // namespace millrace
