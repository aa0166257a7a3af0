#include "server/daemon/column_adapters.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "common/base/protocol_limits.h"
#include "server/plan/columns/column_folders.h"
#include "server/plan/columns/measure.h"
#include "server/plan/columns/request_catcher.h"

namespace millrace {
namespace {

/// A dispatcher that sends nothing for so long does not have the column any more.
constexpr double kSilenceSeconds = 10;

Result<ColumnKey> KeyOf(const std::string& dataset, const std::string& operations,
                        const std::string& name) {
  ColumnKey key;
  MILLRACE_ASSIGN_OR_RETURN(key.dataset, Digest128::FromHex(dataset));
  MILLRACE_ASSIGN_OR_RETURN(key.operations, Digest128::FromHex(operations));
  key.name = name;
  return key;
}

Result<MeasuredType> MeasuredTypeFrom(std::uint32_t number) {
  if (number <= static_cast<std::uint32_t>(MeasuredType::kFloat32)) {
    return static_cast<MeasuredType>(number);
  }
  return InvalidArgument(fmt::format("a column of type {}: expected 0, 1 or 2", number));
}

/// The type of a column of a set; that of counts if the sender knows no other.
Result<MeasuredType> MeasuredTypeOf(const v1::ColumnSet& set, int column) {
  return MeasuredTypeFrom(column < set.types_size() ? set.types(column) : 0);
}

Result<MeasuredValues> MeasuredColumnValues(const v1::MeasuredColumn& column) {
  MILLRACE_ASSIGN_OR_RETURN(const MeasuredType type, MeasuredTypeFrom(column.type()));
  return MeasuredValues::FromBytes({column.values().begin(), column.values().end()}, column.width(),
                                   type, {column.present().begin(), column.present().end()});
}

class LibraryKeeper final : public ColumnKeeper {
 public:
  explicit LibraryKeeper(std::shared_ptr<KeptColumns> columns) : columns_(std::move(columns)) {}

  Status Keep(const v1::Measured& measured) override {
    const v1::ColumnSet& set = measured.set();
    for (int c = 0; c < std::min(set.columns_size(), measured.columns_size()); ++c) {
      MILLRACE_ASSIGN_OR_RETURN(const ColumnKey key,
                                KeyOf(set.dataset_digest(), set.operations(), set.columns(c)));
      MILLRACE_ASSIGN_OR_RETURN(const MeasuredValues values,
                                MeasuredColumnValues(measured.columns(c)));
      MILLRACE_RETURN_IF_ERROR(columns_->Put(key, measured.run().first(), values));
    }
    return OkStatus();
  }
  Status Finish(const v1::ColumnSet& set) override {
    for (const std::string& column : set.columns()) {
      MILLRACE_ASSIGN_OR_RETURN(const ColumnKey key,
                                KeyOf(set.dataset_digest(), set.operations(), column));
      MILLRACE_RETURN_IF_ERROR(columns_->Finish(key));
    }
    return OkStatus();
  }
  void Abandon(const v1::ColumnSet& set) override {
    for (const std::string& column : set.columns()) {
      const auto key = KeyOf(set.dataset_digest(), set.operations(), column);
      if (key.ok()) columns_->Abandon(*key);
    }
  }
  Result<std::shared_ptr<const std::string>> File(const v1::GetColumnRequest& request) override {
    MILLRACE_ASSIGN_OR_RETURN(const ColumnKey key, KeyOf(request.dataset_digest(),
                                                         request.operations(), request.column()));
    return columns_->Encoded(key);
  }

 private:
  const std::shared_ptr<KeptColumns> columns_;
};

class SourceMeasurer final : public RangeMeasurer {
 public:
  static Result<std::unique_ptr<RangeMeasurer>> Make(std::shared_ptr<const Source> source,
                                                     std::vector<MeasurableColumn> columns,
                                                     std::vector<std::uint64_t> excluded) {
    MILLRACE_ASSIGN_OR_RETURN(Measurer measurer,
                              Measurer::Make(*source, std::move(columns), std::move(excluded)));
    return std::unique_ptr<RangeMeasurer>(
        new SourceMeasurer(std::move(source), std::move(measurer)));
  }

  Result<std::vector<v1::MeasuredColumn>> Measure(const v1::ExampleRun& run) override {
    if (run.count() > kMeasuredRange || run.first() > source_->examples() ||
        run.count() > source_->examples() - run.first()) {
      return InvalidArgument(fmt::format("{} examples from {} are to be measured: there are {}",
                                         run.count(), run.first(), source_->examples()));
    }
    MILLRACE_RETURN_IF_ERROR(measurer_.Measure(ExampleId(run.first()), run.count(), values_));
    std::vector<v1::MeasuredColumn> columns;
    for (const WideValues& values : values_) {
      const MeasuredValues narrow(values);
      v1::MeasuredColumn& column = columns.emplace_back();
      column.set_width(narrow.width());
      column.set_values(narrow.bytes().data(), narrow.bytes().size());
      column.set_type(static_cast<std::uint32_t>(narrow.type()));
      column.set_present(narrow.present().data(), narrow.present().size());
    }
    return columns;
  }

 private:
  SourceMeasurer(std::shared_ptr<const Source> source, Measurer measurer)
      : source_(std::move(source)), measurer_(std::move(measurer)) {}

  const std::shared_ptr<const Source> source_;
  Measurer measurer_;
  std::vector<WideValues> values_;
};

/// The columns of a request, as a set that can be measured elsewhere.
v1::ColumnSet SetOf(const ColumnRequest& request) {
  v1::ColumnSet set;
  set.set_dataset(request.dataset_id);
  set.set_dataset_digest(request.source->data_digest().ToHex());
  set.set_operations(request.operations.ToHex());
  set.set_examples(request.source->examples());
  std::map<std::string, MeasuredType> columns;
  for (const MeasurableColumn& column : request.columns) columns[column.name] = column.type;
  for (const auto& [name, type] : columns) {
    set.add_columns(name);
    set.add_types(static_cast<std::uint32_t>(type));
  }
  return set;
}

/// The columns of a set among those that a source can have measured. FailedPrecondition if one is
/// missing.
Result<std::vector<MeasurableColumn>> ColumnsOf(const v1::ColumnSet& set, const Source& source) {
  const std::vector<MeasurableColumn> all = MeasurableColumns(source);
  std::vector<MeasurableColumn> columns;
  for (int c = 0; c < set.columns_size(); ++c) {
    const std::string& name = set.columns(c);
    MILLRACE_ASSIGN_OR_RETURN(const MeasuredType type, MeasuredTypeOf(set, c));
    const auto found = std::find_if(all.begin(), all.end(), [&](const MeasurableColumn& column) {
      return column.name == name;
    });
    if (found == all.end()) {
      return FailedPrecondition(fmt::format("examples have no column {} here", name));
    }
    if (found->type != type) {
      return FailedPrecondition(
          fmt::format("the column {} has values of type {} here: type {} is asked for", name,
                      static_cast<unsigned>(found->type), static_cast<unsigned>(type)));
    }
    columns.push_back(*found);
  }
  return columns;
}

}  // namespace

std::shared_ptr<ColumnKeeper> MakeColumnKeeper(std::shared_ptr<KeptColumns> columns) {
  return std::make_shared<LibraryKeeper>(std::move(columns));
}

std::optional<ColumnWant> FindMissingColumns(PlanLibrary& library, const Pipeline& pipeline,
                                             KeptColumns& columns) {
  RequestCatcher catcher(columns, [&](const ColumnRequest& request) {
    return request.excluded_files.empty() && !columns.Missing(request).empty();
  });
  (void)library.Compile(pipeline, catcher);
  if (!catcher.caught()) return std::nullopt;
  const auto want = BeginColumns(SetOf(*catcher.caught()), catcher.caught()->folders, columns);
  return want.ok() ? *want : std::nullopt;  // the digests of a set that was made here can be read
}

std::optional<v1::ColumnSet> FindUnfetchedColumns(PlanLibrary& library, const Pipeline& pipeline) {
  ColumnProvider& columns = *library.columns();
  RequestCatcher catcher(columns, [&](const ColumnRequest& request) {
    return request.excluded_files.empty() &&
           columns.Get(request).status().code() == StatusCode::kUnavailable;
  });
  (void)library.Compile(pipeline, catcher);
  if (!catcher.caught()) return std::nullopt;
  return SetOf(*catcher.caught());
}

Result<std::optional<ColumnWant>> BeginColumns(v1::ColumnSet set,
                                               std::vector<std::filesystem::path> folders,
                                               KeptColumns& columns) {
  const v1::ColumnSet all = set;
  set.clear_columns();
  set.clear_types();
  std::vector<std::uint64_t> in_all;  // first examples
  for (int c = 0; c < all.columns_size(); ++c) {
    const std::string& name = all.columns(c);
    MILLRACE_ASSIGN_OR_RETURN(const MeasuredType type, MeasuredTypeOf(all, c));
    MILLRACE_ASSIGN_OR_RETURN(const ColumnKey key,
                              KeyOf(set.dataset_digest(), set.operations(), name));
    const ColumnPlace place = {set.dataset(), key, type, set.examples(), folders};
    if (columns.Has(place)) continue;
    columns.Begin(place);
    std::vector<std::uint64_t> has = columns.Measured(key);
    if (set.columns().empty()) {
      in_all = std::move(has);
    } else {
      std::erase_if(in_all, [&](std::uint64_t first) {
        return !std::binary_search(has.begin(), has.end(), first);
      });
    }
    set.add_columns(name);
    set.add_types(static_cast<std::uint32_t>(type));
  }
  std::optional<ColumnWant> want;
  if (set.columns().empty()) return want;
  want.emplace().set = std::move(set);
  for (const std::uint64_t first : in_all) want->measured.push_back(first / kMeasuredRange);
  return want;
}

Result<std::unique_ptr<RangeMeasurer>> MakeRangeMeasurer(PlanLibrary& library,
                                                         const Pipeline& pipeline,
                                                         const v1::ColumnSet& set) {
  if (const auto dataset = library.GetStatus(set.dataset()); dataset.ok() && dataset->opening) {
    return Unavailable(fmt::format("dataset '{}' is being opened", set.dataset()));
  }
  RequestCatcher catcher(*library.columns(), [&](const ColumnRequest& request) {
    return request.source->data_digest().ToHex() == set.dataset_digest() &&
           request.operations.ToHex() == set.operations() &&
           request.source->examples() == set.examples();
  });
  const auto plan = library.Compile(pipeline, catcher);
  if (!catcher.caught()) {
    if (!plan.ok()) return plan.status();
    return FailedPrecondition(
        fmt::format("the pipeline has no source with dataset digest {} and operations {} here: "
                    "this host's dataset or program differs",
                    set.dataset_digest(), set.operations()));
  }
  const std::shared_ptr<const Source>& source = catcher.caught()->source;
  MILLRACE_ASSIGN_OR_RETURN(std::vector<MeasurableColumn> columns, ColumnsOf(set, *source));
  return SourceMeasurer::Make(source, std::move(columns), catcher.caught()->excluded_examples);
}

FetchedColumns::Fetch FetchFrom(std::shared_ptr<Connector> connector, std::string addresses,
                                std::stop_token stop) {
  return [connector = std::move(connector), addresses = std::move(addresses),
          stop = std::move(stop)](const ColumnKey& key) -> Result<std::string> {
    v1::GetColumnRequest request;
    request.set_dataset_digest(key.dataset.ToHex());
    request.set_operations(key.operations.ToHex());
    request.set_column(key.name);
    return connector->GetColumn(addresses, request, kSilenceSeconds, stop);
  };
}

}  // namespace millrace
