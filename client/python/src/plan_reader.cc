// Batches built in this process, without a server, and batches from files.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "client/local/local_reader.h"
#include "client/python/src/options.h"
#include "client/python/src/reader.h"
#include "common/expand/expand.h"
#include "common/system/stderr_logger.h"
#include "server/catalog/product_kinds.h"
#include "server/source/source.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

/// The plugins of a session, by the names of their modules; null if there are none.
std::shared_ptr<PluginRegistry> MakePlugins(const std::map<std::string, std::string>& folders,
                                            const std::string& python) {
  if (folders.empty()) return nullptr;
  PluginRegistryOptions options;
  for (const auto& [name, folder] : folders) {
    PluginConfig plugin;
    plugin.name = name;
    plugin.path = folder;
    plugin.python = python;
    RaiseUnlessOk(CheckPlugin(plugin));
    options.plugins.emplace(name, std::move(plugin));
  }
  options.copies = DefaultPluginCopies();
  options.logger = MakeStderrLogger("millrace", LogLevel::kInfo, false);
  return std::make_shared<PluginRegistry>(std::move(options));
}

class PlanReader final : public Reader {
 public:
  explicit PlanReader(nb::dict options) {
    SessionOptions session;
    TakeSessionOptions(options, session);
    std::map<std::string, std::string> folders;
    std::string index_file;
    TakeOption(options, "datasets", &folders);
    TakeOption(options, "index_file", &index_file);
    std::map<std::string, std::string> plugins;
    std::string python;
    TakeOption(options, "plugins", &plugins);
    TakeOption(options, "python", &python);
    bool packed = false;
    TakeOption(options, "as_packed", &packed);
    RequireNoMore(options);
    LocalDatasets datasets;
    datasets.plugins = MakePlugins(plugins, python);
    datasets.kinds = ProductKinds(datasets.plugins);
    for (const auto& [id, folder] : folders) datasets.folders[id] = folder;
    datasets.index_file = index_file;
    auto reader = ValueOrRaise(WithoutGil([&] {
      return LocalReader::Create(session, std::move(datasets),
                                 packed ? LocalForm::kPacked : LocalForm::kDelivered);
    }));
    local_ = reader.get();
    Open(std::move(reader));
  }

  /// One batch of the examples with these ids, in this order, as in an epoch.
  nb::object OfExamples(const std::vector<std::uint64_t>& ids, std::uint64_t epoch) {
    LocalReader& reader = Local();
    const std::vector<ExampleId> examples(ids.begin(), ids.end());
    return Hold(Run([&] { return reader.BatchOf(examples, epoch); }));
  }
  /// The pieces of documents in a row, as dicts. None if the pipeline packs none.
  nb::object Pieces(std::uint64_t row, std::uint64_t epoch) {
    LocalReader& reader = Local();
    const auto pieces = Run([&] { return reader.PiecesOf(ExampleId(row), epoch); });
    if (!pieces) return nb::none();
    nb::list list;
    for (const RowPiece& piece : *pieces) {
      nb::dict one;
      one["document"] = piece.document.value();
      one["begin"] = piece.begin;
      one["length"] = piece.length;
      list.append(one);
    }
    return list;
  }
  std::uint64_t Examples() const { return Local().plan().source()->whole_examples(); }
  /// The label of the part of the split that the example is in.
  std::uint32_t SplitLabel(std::uint64_t id) const {
    return Local().plan().SplitLabel(ChunksOf(id).first);
  }
  /// True if every epoch has the example, or a chunk of it: its part of the split is taken, and no
  /// filter leaves it out.
  bool Selects(std::uint64_t id) const {
    const ChunkIds chunks = ChunksOf(id);
    for (std::uint64_t i = 0; i < chunks.count; ++i) {
      if (Local().plan().Selects(ExampleId(chunks.first.value() + i))) return true;
    }
    return false;
  }
  using Reader::SpineLabels;

 private:
  LocalReader& Local() const {
    Get();
    return *local_;
  }
  ChunkIds ChunksOf(std::uint64_t id) const {
    RaiseUnlessOk(Local().CheckExample(ExampleId(id)));
    return Local().plan().source()->ChunksOf(ExampleId(id));
  }

  LocalReader* local_ = nullptr;
};

nb::object LoadBatch(nb::handle path, nb::handle index_dtype) {
  BufferPool pool;
  const std::string file = ReadPath(path);
  const DType dtype = ReadIndexDType(index_dtype);
  std::shared_ptr<const PackedBatch> packed;
  const std::shared_ptr<const DeliveredBatch> batch =
      ValueOrRaise(WithoutGil([&]() -> Result<std::shared_ptr<const DeliveredBatch>> {
        MILLRACE_ASSIGN_OR_RETURN(packed, ReadBatchFile(file, pool));
        return Expand(*packed, dtype, pool);
      }));
  // A saved batch knows its place in the epoch's order, but nothing about a run.
  const BatchPlace place{{packed->info().epoch, packed->info().first_example}, 0, 0, 0};
  return MakeBatch(std::make_shared<HeldBatch>(batch, batch->tensors(), batch->info(), packed,
                                               place, 1, DropReasonNames()));
}

}  // namespace

void BindPlanReader(nb::module_& module) {
  nb::class_<PlanReader, Reader>(module, "PlanReader", "Batches of a plan, built in this process.")
      .def(
          "__init__",
          [](PlanReader* self, const nb::dict& options) {
            new (self) PlanReader(nb::dict(options));
          },
          nb::arg("options"))
      .def("of_examples", &PlanReader::OfExamples, nb::arg("examples"), nb::arg("epoch") = 0)
      .def("pieces", &PlanReader::Pieces, nb::arg("row"), nb::arg("epoch"),
           nb::sig("def pieces(self, row: int, epoch: int) -> list[dict] | None"))
      .def("examples", &PlanReader::Examples)
      .def("split_label", &PlanReader::SplitLabel, nb::arg("example"))
      .def("selects", &PlanReader::Selects, nb::arg("example"))
      .def("spine_labels", &PlanReader::SpineLabels);
  module.def("load_batch", &LoadBatch, nb::arg("path"), nb::arg("index_dtype").none() = "int32",
             nb::sig("def load_batch(path: str | os.PathLike[str], index_dtype: str = 'int32') -> "
                     "Batch"),
             "A batch that was saved with `Batch.save` or `millrace batch --out`.");
}

}  // namespace millrace::python
