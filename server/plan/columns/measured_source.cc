#include "server/plan/columns/measured_source.h"

#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "server/source/source_decorator.h"

namespace millrace {
namespace {

class MeasuredSource final : public SourceDecorator {
 public:
  MeasuredSource(std::shared_ptr<const Source> source, const MeasuredColumns& columns)
      : SourceDecorator(std::move(source)), names_(this->source().columns()) {
    for (const auto& [name, values] : columns) {
      names_.push_back(name);
      measured_.push_back(values);
    }
    digest_ = this->source().digest();
    if (this->source().code().empty()) return;  // the dataset decides the values
    std::string identity = digest_.ToHex();
    for (const auto& [name, values] : columns) {
      identity += fmt::format("\n{} {} {}", name, values->width(),
                              Xxh3(std::as_bytes(values->bytes())).ToHex());
      if (values->type() == MeasuredType::kCount) continue;
      identity += fmt::format(" {} {}", static_cast<unsigned>(values->type()),
                              Xxh3(std::as_bytes(values->present())).ToHex());
    }
    digest_ = Xxh3(identity);
  }

  Digest128 digest() const override { return digest_; }

  const std::vector<std::string>& columns() const override { return names_; }
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
  bool HasFloats(std::size_t column) const override {
    const std::size_t own = source().columns().size();
    return column < own ? source().HasFloats(column)
                        : measured_[column - own]->type() == MeasuredType::kFloat32;
  }
  bool IsFeature(std::size_t column) const override {
    const std::size_t own = source().columns().size();
    return column < own ? source().IsFeature(column)
                        : measured_[column - own]->type() != MeasuredType::kCount;
  }
  bool Unmeasured(std::size_t column, ExampleId id) const override {
    const std::size_t own = source().columns().size();
    return column < own ? source().Unmeasured(column, id)
                        : !measured_[column - own]->Has(id.value());
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::shared_ptr<const MeasuredValues>> measured_;
  Digest128 digest_;
};

}  // namespace

std::shared_ptr<const Source> WithColumns(std::shared_ptr<const Source> source,
                                          const MeasuredColumns& columns) {
  return std::make_shared<const MeasuredSource>(std::move(source), columns);
}

}  // namespace millrace
