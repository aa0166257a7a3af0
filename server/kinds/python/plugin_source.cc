#include "server/kinds/python/plugin_source.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/hash.h"
#include "common/batch/batch_writer.h"
#include "common/parameters/make_parameter.h"
#include "server/kinds/python/python_dataset.h"
#include "server/plugin/plugin_config.h"
#include "server/plugin/plugin_probe.h"
#include "server/source/columns_read.h"
#include "server/source/declared_tensors.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/source.h"

namespace millrace {
namespace {

/// A column that the plugin gives.
struct GivenColumn {
  std::string name;
  std::shared_ptr<const PluginColumn> values;

  /// The value of an example, as Source::ReadColumns gives it.
  std::int64_t At(std::uint64_t id) const {
    return values->is_float ? std::bit_cast<std::int64_t>(values->floats[id])
                            : values->integers[id];
  }
  std::span<const std::byte> bytes() const {
    return values->is_float ? std::as_bytes(std::span(values->floats))
                            : std::as_bytes(std::span(values->integers));
  }
};

class PluginSource final : public Source {
 public:
  PluginSource(std::shared_ptr<PluginRegistry> plugins, std::shared_ptr<PluginPool> pool,
               PluginObject object, Digest128 data, DeclaredTensors tensors,
               std::vector<GivenColumn> given, const std::string& probe, Digest128 digest)
      : plugins_(std::move(plugins)),
        pool_(std::move(pool)),
        object_(std::move(object)),
        tensors_(std::move(tensors)),
        given_(std::move(given)) {
    SourceFacts facts;
    facts.name = kPythonKind;
    facts.digest = digest;
    facts.examples = pool_->facts().length;
    facts.columns = {{std::string(kExampleIdTensor)}};
    for (const GivenColumn& column : given_) {
      facts.columns.push_back({column.name, column.values->is_float});
    }
    facts.tensors = tensors_.specs;
    facts.split_column = kExampleIdTensor;
    facts.drop_reasons = DropReasonNames({"plugin"});
    facts.data_digest = data;
    facts.code = Code() + probe;
    facts.varies = pool_->facts().uses_chance;
    facts.pools = {pool_->number()};
    facts.reading_stage = "python";
    SetFacts(std::move(facts));
  }

  PluginPool& pool() const { return *pool_; }
  const PluginObject& object() const { return object_; }
  const DeclaredTensors& declared() const { return tensors_; }
  std::stop_token stop_token() const { return plugins_->stop_token(); }

  void ReadColumns(ExampleId first, std::span<const ColumnValues> wanted) const override {
    for (const ColumnValues& column : wanted) {
      for (std::size_t i = 0; i < column.values.size(); ++i) {
        const std::uint64_t id = first.value() + i;
        column.values[i] =
            column.column == 0 ? static_cast<std::int64_t>(id) : given_[column.column - 1].At(id);
      }
    }
  }
  ExampleDescription Describe(ExampleId id) const override {
    ExampleDescription description;
    description.title = fmt::format("example {} of {}", id.value(), object_.ToString());
    return description;
  }
  std::unique_ptr<ExampleReader> NewReader() const override;
  std::unique_ptr<const ExampleNames> NewNames() const override;
  /// Without a version or a digest, nothing says whether what was built is still right when the
  /// plugin's processes are gone.
  bool verified() const override {
    return pool_->facts().has_version || pool_->facts().digest.has_value();
  }

 private:
  /// What decides what is built, but for the examples that were probed.
  std::string Code() const;

  const std::shared_ptr<PluginRegistry> plugins_;
  const std::shared_ptr<PluginPool> pool_;
  const PluginObject object_;
  const DeclaredTensors tensors_;
  const std::vector<GivenColumn> given_;
};

std::string PluginSource::Code() const {
  const PluginFacts& facts = pool_->facts();
  std::string text = fmt::format("plugin={} files={}\nlength={}\ndigest={}\n", object_.ToString(),
                                 facts.files.ToHex(), facts.length, facts.digest.value_or(""));
  for (const PluginTensor& tensor : facts.tensors) {
    text += fmt::format("{}={}\n", tensor.name, TensorTypeText(tensor.type));
  }
  if (facts.uses_chance) text += fmt::format("chance {}\n", kChanceVersion);
  return text + facts.environment;
}

/// Names of examples: what the plugin says of their content, and its own files.
class PluginNames final : public ExampleNames {
 public:
  explicit PluginNames(const PluginSource& source) : source_(source) {}

  void Name(std::span<const ExampleId> ids, std::span<Digest128> names) const override {
    const PluginFacts& facts = source_.pool().facts();
    std::vector<std::string> versions;
    if (facts.has_version) {
      std::vector<std::uint64_t> numbers;
      for (const ExampleId id : ids) numbers.push_back(id.value());
      auto told = source_.pool().Versions(numbers, source_.stop_token());
      // Examples without a version are not kept.
      if (!told.ok()) {
        std::fill_n(names.begin(), ids.size(), Digest128{});
        return;
      }
      versions = *std::move(told);
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::string content =
          facts.has_version
              ? "version " + versions[i]
              : fmt::format("digest {} {}", facts.digest.value_or(""), ids[i].value());
      names[i] = Xxh3(fmt::format("{}\n{}\n{}\n{}", source_.object().ToString(),
                                  facts.files.ToHex(), source_.object().args, content));
    }
  }

 private:
  const PluginSource& source_;
};

class PluginReader final : public ExampleReader {
 public:
  explicit PluginReader(const PluginSource& source) : source_(source) {}

  Status Append(std::span<const ExampleId> ids, BatchWriter& writer) override {
    if (ids.empty()) return OkStatus();
    request_.ids.clear();
    for (const ExampleId id : ids) request_.ids.push_back(id.value());
    request_.epochs.clear();
    for (std::size_t i = 0; source_.facts().varies && i < ids.size(); ++i) {
      request_.epochs.push_back(writer.PassOf(i));
    }
    MILLRACE_ASSIGN_OR_RETURN(const PluginReply reply,
                              source_.pool().Build(request_, source_.stop_token()));
    for (std::size_t row = 0; row < ids.size(); ++row) {
      if (reply.outcome(row) == RowOutcome::kFailed) return Failed(reply, row);
    }
    for (std::size_t row = 0; row < ids.size(); ++row) {
      if (reply.outcome(row) == RowOutcome::kDropped) {
        writer.AddDropped(ids[row], kDroppedByPlugin);
        continue;
      }
      writer.AppendOne(source_.declared().example_id, static_cast<std::int64_t>(ids[row].value()));
      for (std::size_t t = 0; t < source_.declared().numbers.size(); ++t) {
        const std::size_t tensor = source_.declared().numbers[t];
        const bool ragged = !source_.tensors()[tensor].splits.empty();
        const std::span<const std::byte> values = reply.values(t, row);
        const std::span<std::byte> room =
            writer.AppendRows(tensor, ragged ? reply.extent(t, row) : 1);
        if (!room.empty()) std::memcpy(room.data(), values.data(), room.size());
      }
      writer.EndExample(ids[row]);
    }
    return OkStatus();
  }

 private:
  Status Failed(const PluginReply& reply, std::size_t row) const {
    const std::uint64_t id = request_.ids[row];
    return Aborted(
        fmt::format("plugin {}\nto go on without it, write `exclude: {{examples: [{}]}}`",
                    DescribeFailure(reply.failure(row), source_.object().ToString(), id), id));
  }

  const PluginSource& source_;
  PluginRequest request_;
};

std::unique_ptr<ExampleReader> PluginSource::NewReader() const {
  return std::make_unique<PluginReader>(*this);
}

std::unique_ptr<const ExampleNames> PluginSource::NewNames() const {
  if (facts().varies) return nullptr;
  return std::make_unique<PluginNames>(*this);
}

/// Some examples, built in two processes: lines that say what they came to. Another host has to
/// come to the same. FailedPrecondition if the two processes differ.
Result<std::string> Probe(PluginRegistry& plugins, PluginPool& pool, const PluginObject& object) {
  const std::vector<std::uint64_t> ids = ExamplesToProbe(pool.facts().length);
  MILLRACE_ASSIGN_OR_RETURN(const auto other, plugins.AnotherPool(object));
  MILLRACE_ASSIGN_OR_RETURN(const auto here, ProbeExamples(pool, ids, plugins.stop_token()));
  MILLRACE_ASSIGN_OR_RETURN(const auto there, ProbeExamples(*other, ids, plugins.stop_token()));
  const auto difference = FirstDifference(pool.facts().tensors, here, there);
  if (difference) {
    return FailedPrecondition(fmt::format(
        "plugin {}: {}: two processes give different bytes; an example has to depend on its id, "
        "the arguments and the rng alone: what draws writes `example(i, epoch, rng)` in place of "
        "`__getitem__(i)`, or the pipeline `random: true`; `millrace check` compares more of them",
        object.ToString(), *difference));
  }
  std::string text;
  for (const ProbedExample& example : here) {
    if (example.outcome != RowOutcome::kDone) {
      text += fmt::format("\nexample {}: not built", example.id);
    }
    for (std::size_t t = 0; t < example.tensors.size(); ++t) {
      text += fmt::format("\nexample {}, tensor {}: {}", example.id, pool.facts().tensors[t].name,
                          example.tensors[t].ToHex());
    }
  }
  return text;
}

Result<std::shared_ptr<const Source>> MakePluginSource(
    const std::shared_ptr<PluginRegistry>& plugins, const std::shared_ptr<const Dataset>& dataset,
    const PlanParts& parts) {
  MILLRACE_ASSIGN_OR_RETURN(PluginObject object, PluginObjectOf(parts));
  if (plugins == nullptr) {
    return FailedPrecondition(fmt::format(
        "source.python: nothing runs plugins here; name the folder of {0} with --plugin {0}=FOLDER",
        object.module));
  }
  const auto& from = static_cast<const PythonDataset&>(*dataset);
  if (!from.is_plugin()) object.folder = from.dir().string();
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<PluginPool> pool, plugins->Pool(object));
  const PluginFacts& facts = pool->facts();
  if (from.is_plugin() && facts.files != from.digest()) {
    return FailedPrecondition(fmt::format(
        "the files of plugin {} have changed since this process read them; restart it, or have it "
        "read its configuration again (SIGHUP)",
        object.module));
  }
  std::vector<DeclaredTensor> declared;
  for (const PluginTensor& tensor : facts.tensors) {
    const Status named = CheckDeclaredName(tensor.name);
    if (!named.ok()) {
      return named.WithContext(
          fmt::format("plugin {}: spec(): the tensor '{}'", object.ToString(), tensor.name));
    }
    declared.push_back({tensor.name, tensor.type});
  }
  auto tensors = DeclareTensors(declared, facts.length);
  if (!tensors.ok()) {
    return tensors.status().WithContext(fmt::format("plugin {}: spec()", object.ToString()));
  }
  // The digest of columns that the order reads is part of what a cursor stands for.
  const std::set<std::string> read = ColumnsReadBy(parts);
  std::string identity =
      fmt::format("python={}\nargs={}\nlength={}\n", object.ToString(), object.args, facts.length);
  if (!from.is_plugin()) identity += fmt::format("folder={}\n", from.digest().ToHex());
  std::vector<GivenColumn> given;
  for (const PluginFacts::Column& column : facts.columns) {
    if (column.name == kExampleIdTensor) {
      return FailedPrecondition(
          fmt::format("plugin {}: columns(): {}: every source has a column of this name; choose "
                      "another one",
                      object.ToString(), column.name));
    }
    if (!column.dtype) continue;
    MILLRACE_ASSIGN_OR_RETURN(auto values, pool->Column(column.name, plugins->stop_token()));
    given.push_back({column.name, std::move(values)});
    if (!read.contains(column.name)) continue;
    identity += fmt::format("column {}={}\n", column.name, Xxh3(given.back().bytes()).ToHex());
  }
  MILLRACE_ASSIGN_OR_RETURN(std::string probe, Probe(*plugins, *pool, object));
  return std::shared_ptr<const Source>(std::make_shared<PluginSource>(
      plugins, std::move(pool), std::move(object), from.digest(), *std::move(tensors),
      std::move(given), std::move(probe), Xxh3(identity)));
}

}  // namespace

Result<PluginObject> PluginObjectOf(const PlanParts& parts) {
  const SourcePart& part = parts.Get<SourcePart>();
  MILLRACE_ASSIGN_OR_RETURN(PluginObject object,
                            ParsePluginObject(std::get<std::string>(part.argument)));
  object.kind = PluginObject::Kind::kSource;
  const auto option = [&part](std::string_view name) -> const ParamValue* {
    const auto found = part.options.find(name);
    return found == part.options.end() ? nullptr : &found->second;
  };
  if (const ParamValue* args = option("args")) object.args = std::get<ParamTree>(*args).json;
  if (const ParamValue* drop = option("drop")) {
    object.drop = std::get<std::vector<std::string>>(*drop);
  }
  if (const ParamValue* timeout = option("timeout")) {
    object.timeout = std::chrono::seconds(std::get<std::int64_t>(*timeout));
  }
  if (const ParamValue* random = option("random")) object.random = std::get<bool>(*random);
  object.chance.seed = static_cast<std::uint64_t>(parts.Get<ShufflePart>().seed.value_or(0));
  if (const ParamValue* seed = option("seed")) {
    object.chance.seed = static_cast<std::uint64_t>(std::get<std::int64_t>(*seed));
  }
  object.chance.fingerprint =
      Xxh3(fmt::format("python={}\nargs={}\n", object.ToString(), object.args)).ToHex();
  return object;
}

SourceTable PluginSources(std::shared_ptr<PluginRegistry> plugins) {
  const auto is_class = [](const ParamValue& value) {
    return ParsePluginObject(std::get<std::string>(value)).status();
  };
  SourceType python;
  python.name = kPythonKind;
  python.help = "what a class of a plugin builds";
  python.make = [plugins = std::move(plugins)](const std::shared_ptr<const Dataset>& dataset,
                                               const PlanParts& parts) {
    return MakePluginSource(plugins, dataset, parts);
  };
  python.argument =
      WithCheck(NonEmptyTextParameter("", "the class, as \"module:Class\""), is_class);
  python.own_dataset = [](const ParamValue& argument) {
    const auto named = ParsePluginObject(std::get<std::string>(argument));
    return named.ok() ? std::string(kPluginIdPrefix) + named->module : std::string();
  };
  python.options = {
      ParameterOf({ParamType::kTree}, "args", "arguments of the class, by their names"),
      Unordered(TextsParameter("drop", "names of exceptions that drop the example")),
      IntParameter("timeout", 60, "seconds that an example may take", 1, 86400),
      BoolParameter("random", false, "seed random, numpy.random and torch before each example"),
      IntParameter("seed", "of chance; usually that of shuffle", std::nullopt),
  };
  // What the order depends on is in the source's digest.
  for (Parameter& option : python.options) option.in_order = false;
  return SourceTable({std::move(python)});
}

}  // namespace millrace
