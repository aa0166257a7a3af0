// Batches of a made-up plan whose tensors have every form that operations read, for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/batch/batch_writer.h"
#include "common/expand/delivery.h"
#include "common/operations/consumer_program.h"
#include "tests/unit/common/batch/model_batch.h"
#include "tests/unit/common/operations/run_graph.h"

namespace millrace::test {

/// One example.
struct DeliveryRow {
  std::vector<std::uint8_t> d;  // five bytes
  std::uint16_t s = 0;
  std::vector<std::uint8_t> tokens;
  std::vector<float> wave;  // pairs
  bool flag = false;
};

inline std::vector<TensorSpec> DeliveryTensors() {
  std::vector<TensorSpec> tensors(7);
  const auto set = [&](std::size_t i, std::string path, DType dtype, std::uint64_t max) {
    tensors[i].path = tensors[i].dimension = std::move(path);
    tensors[i].dtype = dtype;
    tensors[i].max = max;
    tensors[i].expansion = Expansion::kKeep;
  };
  const auto cut = [&](std::size_t i) {
    tensors[i].kind = TensorKind::kRaggedValues;
    tensors[i].splits = tensors[i].path + "_splits";
    set(i + 1, tensors[i].splits, DType::kUint16, 65535);
    tensors[i + 1].kind = TensorKind::kSplits;
    tensors[i + 1].dimension = "batch+1";
    tensors[i + 1].expansion = Expansion::kWiden;
  };
  set(0, "d", DType::kUint8, 255);
  tensors[0].inner = {5};
  set(1, "s", DType::kUint16, 65535);
  tensors[1].expansion = Expansion::kWiden;
  set(2, "tokens", DType::kUint8, 255);
  tensors[2].expansion = Expansion::kWiden;
  cut(2);
  set(4, "wave", DType::kFloat32, 0);
  tensors[4].inner = {2};
  cut(4);
  set(6, "flag", DType::kBool, 0);
  for (const std::size_t dense : {0, 1, 6}) tensors[dense].dimension = "batch";
  return tensors;
}

inline std::shared_ptr<const PackedBatch> PackRows(const std::vector<DeliveryRow>& rows,
                                                   BufferPool& pool) {
  auto writer = BatchWriter::Create(DeliveryTensors(), {}, pool).value();
  writer.Begin({}, 3, 512, static_cast<std::uint32_t>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    writer.AppendBytes(0, std::as_bytes(std::span(rows[i].d)));
    writer.AppendOne(1, rows[i].s);
    for (const std::uint8_t token : rows[i].tokens) writer.AppendOne(2, token);
    writer.AppendBytes(4, std::as_bytes(std::span(rows[i].wave)));
    writer.AppendOne(6, rows[i].flag ? 1 : 0);
    writer.EndExample(ExampleId(i));
  }
  return writer.Seal().value();
}

inline std::vector<DeliveryRow> RandomRows(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::vector<DeliveryRow> rows(count);
  for (DeliveryRow& row : rows) {
    for (int i = 0; i < 5; ++i) row.d.push_back(static_cast<std::uint8_t>(random()));
    row.s = static_cast<std::uint16_t>(random());
    row.tokens.resize(random() % 5);
    for (std::uint8_t& token : row.tokens) token = static_cast<std::uint8_t>(random());
    row.wave.resize(2 * (random() % 4));
    for (float& value : row.wave) value = static_cast<float>(random() % 1000) / 8;
    row.flag = random() % 2 == 1;
  }
  return rows;
}

/// The sources as operations read them.
inline NamedTensors DeliverySources(std::span<const DeliveryRow> rows) {
  std::vector<std::uint8_t> d;
  std::vector<std::uint8_t> flag;
  Ints s;
  std::vector<Ints> tokens;
  std::vector<std::vector<float>> wave;
  for (const DeliveryRow& row : rows) {
    d.insert(d.end(), row.d.begin(), row.d.end());
    s.push_back(row.s);
    flag.push_back(row.flag ? 1 : 0);
    tokens.emplace_back(row.tokens.begin(), row.tokens.end());
    wave.push_back(row.wave);
  }
  return {{"d", Dense("uint8[5]", rows.size(), d)},
          {"s", Dense("int64", rows.size(), s)},
          {"tokens", Ragged("int64[*]", tokens)},
          {"wave", Ragged("float32[*, 2]", wave)},
          {"flag", Dense("bool", rows.size(), flag)}};
}

inline TensorDefinition Defined(std::string name, std::string operation,
                                std::vector<std::string> inputs,
                                std::map<std::string, ParamValue> params = {}) {
  return {std::move(name), std::move(operation), std::move(inputs),
          Params(std::move(params))};
}

/// Definitions that use one another. All of them suit every batch.
inline std::vector<TensorDefinition> DeliveryDefinitions() {
  const auto text = [](const char* value) { return ParamValue(std::string(value)); };
  const auto ints = [](std::vector<std::int64_t> values) {
    return ParamValue(std::move(values));
  };
  return {
      Defined("planes", "bits", {"d"}),
      Defined("part", "slice", {"planes"}, {{"range", ints({3, 20})}, {"dtype", text("float32")}}),
      Defined("again", "bits", {"d"}),
      Defined("flat", "reshape", {"d"}, {{"shape", ints({5, 1})}}),
      Defined("sf", "cast", {"s"}, {{"dtype", text("float64")}}),
      Defined("small", "cast", {"flag"}, {{"dtype", text("int8")}}),
      Defined("hot", "one_hot", {"small"}, {{"depth", std::int64_t{2}}}),
      Defined("head", "slice", {"tokens"}, {{"range", ints({0, 2})}}),
      Defined("both", "concat", {"tokens", "head"}, {{"axis", std::int64_t{1}}}),
      Defined("twice", "stack", {"wave", "loud"}, {{"axis", std::int64_t{2}}}),
      Defined("loud", "cast", {"wave"}, {{"dtype", text("float32")}, {"scale", 2.5}}),
      Defined("long", "length", {"both"})};
}

/// A delivery of DeliveryTensors and of tensors that are computed of them.
inline Delivery ComputedDelivery(std::vector<TensorDefinition> definitions,
                                 std::vector<std::string> outputs,
                                 std::map<std::string, Params> pads = {}) {
  TensorGraphText text;
  text.definitions = std::move(definitions);
  text.outputs = std::move(outputs);
  text.pads = std::move(pads);
  return Delivery::Make(DeliveryTensors(), std::move(text), DType::kInt32).value();
}

/// The tensors of a plan with one ragged tensor of integers, `big`.
inline std::vector<TensorSpec> BigTensors(DType dtype) {
  std::vector<TensorSpec> tensors(2);
  tensors[0].path = tensors[0].dimension = "big";
  tensors[0].kind = TensorKind::kRaggedValues;
  tensors[0].dtype = dtype;
  tensors[0].max = DTypeMax(dtype);
  tensors[0].splits = tensors[1].path = "big_splits";
  tensors[1].kind = TensorKind::kSplits;
  tensors[1].max = 255;
  tensors[1].dimension = "batch+1";
  return tensors;
}

/// A batch of one row: 5 and `second`.
inline std::shared_ptr<const PackedBatch> PackBig(DType dtype, std::int64_t second,
                                                  BufferPool& pool) {
  auto writer = BatchWriter::Create(BigTensors(dtype), {}, pool).value();
  writer.Begin({}, 0, 0, 1);
  writer.AppendOne(0, 5);
  writer.AppendOne(0, second);
  writer.EndExample(ExampleId(0));
  return writer.Seal().value();
}

/// A batch of one row of uint64: 5 and 2^64 - 1.
inline std::shared_ptr<const PackedBatch> PackHuge(BufferPool& pool) {
  const auto packed = PackBig(DType::kUint64, 6, pool);
  const auto copy = CopyOf(packed->bytes(), pool);
  const auto at = static_cast<std::size_t>(packed->tensor_bytes(0).data() - packed->bytes().data());
  std::memset(copy->data() + at + sizeof(std::uint64_t), 0xff, sizeof(std::uint64_t));
  return PackedBatch::Parse(copy, packed->bytes().size()).value();
}

/// A delivery in which `big` is padded.
inline Delivery PaddedBigDelivery(DType dtype, DType index_dtype) {
  TensorGraphText text;
  text.outputs = {"big"};
  text.pads = {{"big", {}}};
  return Delivery::Make(BigTensors(dtype), std::move(text), index_dtype).value();
}

}  // namespace millrace::test
