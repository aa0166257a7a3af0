// A pipeline as a user or a Hello brings it: text, variant and overrides, with zero bytes between
// them.
#include "server/plan/text/pipeline.h"

#include "server/catalog/product_kinds.h"
#include "server/plan/pipeline_parts.h"
#include "server/source/plan_parts.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;
  fuzz::Input in(data, size);
  PipelineSource source;
  source.yaml = in.TakeTo('\0');
  source.variant = in.TakeTo('\0');
  while (!in.empty() && source.overrides.size() < 16) {
    source.overrides.emplace_back(in.TakeTo('\0'));
  }
  const auto pipeline = Pipeline::Parse(source, ProductStages());
  if (!pipeline.ok()) {
    fuzz::Require(pipeline.status().code() == StatusCode::kInvalidArgument,
                  "a wrong text gives InvalidArgument");
    fuzz::Require(pipeline.status().message().size() < 64 * 1024, "a message is no copy of a text");
    return 0;
  }
  fuzz::Require(IsDatasetId(pipeline->dataset()), "a pipeline names a dataset");
  fuzz::Require(pipeline->Find("batch") != nullptr, "a pipeline has batches");
  const Params& of_source = pipeline->Find("source")->params;
  const bool drops = of_source.values().contains("on_error") &&
                     of_source.values().at("on_error") == ParamValue(std::string("drop"));
  fuzz::Require((pipeline->excluded_files().empty() && pipeline->tensors().empty() && !drops) !=
                    (pipeline->digest() != pipeline->order_digest()),
                "the two digests differ if files are excluded, tensors are named or bad examples "
                "are dropped, and only then");
  const auto parts = PartsOfPipeline(*pipeline);
  const auto again = Pipeline::Parse(source, ProductStages());
  fuzz::Require(again.ok() && again->digest() == pipeline->digest() && parts.ok(),
                "a text means the same each time");
  return 0;
}

std::vector<std::string> millrace::fuzz::Seeds() {
  const std::string minimal = "millrace: 1\ndataset: d\nsource: proof_states\nbatch: {size: 8}\n";
  const std::string full =
      "millrace: 1\n"
      "dataset: stdlib\n"
      "source: proof_states\n"
      "split: {method: hash, proportions: [9, 1], seed: 0, take: 0}\n"
      "filter: {exclude_none_arguments: false, exclude_not_faithful: true,\n"
      "         required_tactic_occurrence: 2, restrict_to_spine: true}\n"
      "shuffle: {seed: 0}\n"
      "closure: {max_subgraph_size: 1024, order: dfs, stop_at_definitions: false}\n"
      "edges: {symmetrization: undirected, add_self_edges: false}\n"
      "batch: {global_size: 512, remainder: keep}\n"
      "fields: {global_context: full, text: true}\n"
      "variants:\n"
      "  valid: {split.take: [1], shuffle: null, batch.remainder: drop}\n"
      "  test: {split: {method: file_prefix, prefixes: [[A, B], [\"C/D\"]], take: 1}}\n"
      "exclude: {files: [\"a.bin\", b.bin]}\n";
  const std::string tensors =
      minimal +
      "tensors:\n"
      "  bits:   {bits: d, order: lsb}\n"
      "  planes: {slice: bits, range: [0, 1536], shape: [8, -1, 24]}\n"
      "  board:  {take: planes, axis: -1, index: [0, 4], scale: [1, -0.5], offset: 1e-3}\n"
      "  score:  {expr: \"s ? A * tanh(d.length / s) : 1\", with: {A: 0.9}, dtype: float32}\n"
      "  both:   {concat: [board, target/y], squeeze: true, at: worker}\n"
      "output: [score, board]\n"
      "pad: {score: {value: 0, multiple: 8, to: 16}}\n"
      "variants:\n"
      "  exact: {tensors: {score: {dtype: float64, expr: s}}, pad: null}\n";
  const std::string records =
      "millrace: 1\n"
      "dataset: r\n"
      "source:\n"
      "  records: {d: \"bytes[194]\", s: int64, x: 'float32[*, 80]', t: str,\n"
      "            y: {feature: \"image/label\", type: 'int64[2]', default: [0, -1]}}\n"
      "  on_error: drop\n"
      "batch: {size: 8}\n";
  using namespace std::string_literals;
  return {
      minimal,
      full,
      full + "\0valid"s,
      full + "\0test\0closure.max_subgraph_size=64\0batch.size=4\0batch.global_size=null"s,
      minimal + "\0\0shuffle.seed=3\0split={method: disabled}"s,
      "a: &x [1, 2]\nb: *x\n",
      "millrace: 1\ndataset: &d d\nsource: definitions\nbatch: {size: 2}\nvariants: {*d : {}}\n",
      minimal + "branches: {}\n",
      tensors,
      tensors + "\0exact\0tensors.score.with={A: 1.5}\0tensors.board=null\0output=[score]"s,
      minimal + "tensors: {a: {stack: [b, c]}, b: {cast: a.length, dtype: bool, at: consumer}}\n",
      minimal + "tensors.a.expr: |\n  1 +\n  max(d\n",
      minimal + "output: [a/b, a.b]\npad: {graph: {}, a.b.to: bound}\n",
      minimal + "pad.graph: {nodes: 64, edges: 256, graphs: 9}\n\0\0pad.graph.edges=0"s,
      minimal + "# comment\n---\n",
      records,
      records + "\0\0source={records: {a: {type: float32, default: 1e3}}, on_error: fail}"s,
      "millrace: 1\ndataset: r\nsource: {records: {a: {type: str, default: x}, b: 07}}\n",
      "millrace: 1\ndataset: t\nsource: {tokens: {dtype: uint16, eos: 7, vocab: 9}}\n"
      "pack: {tensor: tokens, with: [mask], size: 64, method: fit, above: cut, window: 9, seed: "
      "3}\n"
      "batch: {size: 8}\noutput: [tokens, pack.label, pack.cu_seqlens]\n"
      "pad: {pack: {to: 70}, pack.label: {value: -1}}\n"
      "variants: {b: {pack: {method: concat, with: [], before: [1], after: [2, 3]}}}\n\0b"s,
      "{millrace: 1, dataset: d, source: definitions, batch: {size: 0x10}}"};
}
