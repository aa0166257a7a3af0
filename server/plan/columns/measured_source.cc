#include "server/plan/columns/measured_source.h"

#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "server/source/source_decorator.h"

namespace millrace {
namespace {

SourceFacts FactsOf(const Source& source, const MeasuredColumns& columns) {
  SourceFacts facts = source.facts();
  std::string identity = facts.digest.ToHex();
  for (const auto& [name, values] : columns) {
    facts.columns.push_back({.name = name,
                             .floats = values->type() == MeasuredType::kFloat32,
                             .feature = values->type() != MeasuredType::kCount});
    if (facts.code.empty()) continue;  // the dataset decides the values
    identity += fmt::format("\n{} {} {}", name, values->width(),
                            Xxh3(std::as_bytes(values->bytes())).ToHex());
    if (values->type() == MeasuredType::kCount) continue;
    identity += fmt::format(" {} {}", static_cast<unsigned>(values->type()),
                            Xxh3(std::as_bytes(values->present())).ToHex());
  }
  if (!facts.code.empty()) facts.digest = Xxh3(identity);
  return facts;
}

class MeasuredSource final : public SourceDecorator {
 public:
  MeasuredSource(const std::shared_ptr<const Source>& source, const MeasuredColumns& columns)
      : SourceDecorator(source, FactsOf(*source, columns)) {
    for (const auto& [name, values] : columns) measured_.push_back(values);
  }

  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override {
    const std::size_t own = source().columns().size();
    std::vector<ColumnValues> rest;
    for (const ColumnValues& column : wanted) {
      if (column.column < own) {
        rest.push_back(column);
      } else {
        const MeasuredValues& values = *measured_[column.column - own];
        if (column.presence) {
          values.ReadPresence(first.value(), column.values);
        } else {
          values.Read(first.value(), column.values);
        }
      }
    }
    if (!rest.empty()) source().ReadColumns(first, rest);
  }
  std::unique_ptr<ElementReader> NewElementReader(std::size_t tensor) const override {
    return source().NewElementReader(tensor);
  }
  bool Unmeasured(std::size_t column, ExampleId id) const override {
    const std::size_t own = source().columns().size();
    return column < own ? source().Unmeasured(column, id)
                        : !measured_[column - own]->Has(id.value());
  }

 private:
  std::vector<std::shared_ptr<const MeasuredValues>> measured_;
};

}  // namespace

std::shared_ptr<const Source> WithColumns(const std::shared_ptr<const Source>& source,
                                          const MeasuredColumns& columns) {
  return std::make_shared<const MeasuredSource>(source, columns);
}

}  // namespace millrace
