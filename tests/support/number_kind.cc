#include "tests/support/number_kind.h"

#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/base/hash.h"
#include "common/batch/batch_writer.h"
#include "server/source/dataset.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "numbers.txt";
constexpr std::int64_t kMost = 1'000'000;

class NumberDataset final : public Dataset {
 public:
  static Result<std::shared_ptr<const NumberDataset>> Open(const fs::path& dir) {
    auto dataset = std::make_shared<NumberDataset>();
    dataset->dir_ = dir;
    std::ifstream in(dir / kFile);
    std::int64_t number = 0;
    while (in >> number) {
      if (number < 0 || number > kMost) {
        return DataLoss(std::string(kFile) + ": the number " + std::to_string(number) +
                        " is out of range");
      }
      dataset->numbers_.push_back(number);
    }
    if (!in.eof()) return DataLoss(std::string(kFile) + ": expected numbers alone");
    return std::shared_ptr<const NumberDataset>(std::move(dataset));
  }

  const std::vector<std::int64_t>& numbers() const { return numbers_; }

  std::string_view kind() const override { return "numbers"; }
  const fs::path& dir() const override { return dir_; }
  Digest128 digest() const override { return Xxh3(std::as_bytes(std::span(numbers_))); }
  std::uint64_t examples() const override { return numbers_.size(); }
  std::uint64_t file_count() const override { return 1; }
  std::vector<DatasetFile> Files() const override {
    return {{kFile, numbers_.size() * sizeof(std::int64_t), digest()}};
  }
  FileNews CheckFiles(const std::stop_token& /*stop*/) const override { return {}; }
  std::vector<DamagedFile> Damages() const override { return {}; }

 private:
  fs::path dir_;
  std::vector<std::int64_t> numbers_;  // all that the file says, so it is not needed any more
};

class NumberSource final : public Source {
 public:
  NumberSource(std::shared_ptr<const NumberDataset> dataset, bool runs)
      : dataset_(std::move(dataset)), runs_(runs) {
    SourceFacts facts;
    facts.name = runs_ ? "runs" : "numbers";
    facts.digest = dataset_->digest();
    facts.examples = dataset_->numbers().size();
    facts.columns = {{"value"}, {"odd"}};
    facts.split_column = "value";
    for (const char* path : {"value", "example_id"}) {
      TensorSpec spec;
      spec.path = path;
      spec.kind = TensorKind::kDense;
      spec.dtype = NarrowestDType(0, kMost);
      spec.dimension = "batch";
      spec.max = kMost;
      facts.tensors.push_back(std::move(spec));
    }
    if (runs_) AddRuns(facts.tensors);
    SetFacts(std::move(facts));
  }

  bool runs() const { return runs_; }
  std::int64_t Number(ExampleId id) const { return dataset_->numbers()[id.value()]; }

  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override {
    for (const ColumnValues& column : wanted) {
      for (std::size_t i = 0; i < column.values.size(); ++i) {
        const std::int64_t number = Number(ExampleId(first.value() + i));
        column.values[i] = column.column == 0 ? number : number % 2;
      }
    }
  }
  ExampleDescription Describe(ExampleId id) const override {
    ExampleDescription description;
    description.file = kFile;
    description.title = std::to_string(Number(id));
    description.facts = {{"value", static_cast<std::uint64_t>(Number(id)), "value"}};
    return description;
  }
  std::unique_ptr<ExampleReader> NewReader() const override;

 private:
  static void AddRuns(std::vector<TensorSpec>& tensors) {
    for (const char* path : {"run", "run/minus"}) {
      TensorSpec spec;
      spec.path = path;
      spec.kind = TensorKind::kRaggedValues;
      spec.dtype = DType::kInt16;
      spec.dimension = "run";
      spec.splits = "run_splits";
      spec.min = -30'010;
      spec.max = 30'010;
      tensors.push_back(std::move(spec));
    }
    TensorSpec splits;
    splits.path = "run_splits";
    splits.kind = TensorKind::kSplits;
    splits.dtype = DType::kUint32;
    splits.dimension = "batch+1";
    splits.max = 0xFFFFFFFF;
    tensors.push_back(std::move(splits));
  }

  const std::shared_ptr<const NumberDataset> dataset_;
  const bool runs_;
};

class NumberReader final : public ExampleReader {
 public:
  explicit NumberReader(const NumberSource& source) : source_(source) {}

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
    for (const ExampleId id : ids) {
      const std::int64_t number = source_.Number(id);
      if (source_.runs() && number > kLongestRun) {
        writer.AddDropped(id, DropReason::kTooLarge);
        continue;
      }
      writer.AppendOne(0, number);
      writer.AppendOne(1, static_cast<std::int64_t>(id.value()));
      for (std::int64_t i = 0; source_.runs() && i < number; ++i) {
        writer.AppendOne(2, RunElement(number, i));
        writer.AppendOne(3, -RunElement(number, i));
      }
      writer.EndExample(id);
    }
    return OkStatus();
  }

 private:
  const NumberSource& source_;
};

std::unique_ptr<ExampleReader> NumberSource::NewReader() const {
  return std::make_unique<NumberReader>(*this);
}

StageType ParityStage() {
  StageType stage;
  stage.name = "parity";
  stage.help = "keeps the odd numbers, or the even ones";
  stage.optional = true;
  stage.parameters = {{.name = "odd",
                       .types = {ParamType::kBool},
                       .default_value = true,
                       .help = "true: the odd numbers"}};
  stage.compile = [](const Params& params, PlanParts& parts) {
    parts.Edit<FilterPart>().conditions.push_back(
        {.column = "odd", .zero = !params.GetBool("odd")});
    return OkStatus();
  };
  return stage;
}

class NumberKind final : public DatasetKind {
 public:
  std::string_view name() const override { return "numbers"; }
  std::string_view looks_for() const override { return "file numbers.txt"; }
  bool IsOne(const fs::path& dir) const override { return fs::exists(dir / kFile); }
  const SourceTable& sources() const override { return sources_; }
  std::vector<AddedStage> stages() const override { return {{ParityStage(), "shuffle"}}; }

  OpenedDataset Open(const fs::path& dir, const DatasetOpenOptions& /*options*/) const override {
    OpenedDataset opened;
    const auto dataset = NumberDataset::Open(dir);
    opened.status = dataset.status();
    if (dataset.ok()) opened.dataset = *dataset;
    return opened;
  }
  Result<std::string> Inspect(const fs::path& dir,
                              const DatasetOpenOptions& /*options*/) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto dataset, NumberDataset::Open(dir));
    return "numbers          " + std::to_string(dataset->examples()) + "\n";
  }

 private:
  template <bool kRuns>
  static Result<std::shared_ptr<const Source>> MakeSource(std::shared_ptr<const Dataset> dataset,
                                                          const PlanParts& /*parts*/) {
    return std::shared_ptr<const Source>(std::make_shared<NumberSource>(
        std::static_pointer_cast<const NumberDataset>(std::move(dataset)), kRuns));
  }
  const SourceTable sources_ = SourceTable({{"numbers", "one a number", MakeSource<false>},
                                            {"runs", "the run of a number", MakeSource<true>}});
};

}  // namespace

std::shared_ptr<const DatasetKind> MakeNumberKind() { return std::make_shared<NumberKind>(); }

void WriteNumbers(const fs::path& dir, int count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  WriteNumbers(dir, numbers);
}

void WriteNumbers(const fs::path& dir, const std::vector<std::int64_t>& numbers) {
  fs::create_directories(dir);
  std::ofstream out(dir / kFile);
  for (const std::int64_t number : numbers) out << number << "\n";
}

}  // namespace millrace::test
