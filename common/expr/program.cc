#include "common/expr/program.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace millrace::expr_internal {
namespace {

/// Values of a block. All registers of a usual expression fit into the nearest cache.
constexpr std::size_t kBlock = 256;
constexpr std::size_t kRegisterBytes = kBlock * sizeof(std::int64_t);

DType TypeOf(ValueType type) {
  switch (type) {
    case ValueType::kBool:
      return DType::kBool;
    case ValueType::kFloat32:
      return DType::kFloat32;
    case ValueType::kFloat64:
      return DType::kFloat64;
    default:
      return DType::kInt64;
  }
}

/// For each node, the last node that reads it; 0 if none does. Nodes come after what they read.
std::vector<std::uint32_t> LastReaders(const std::vector<Node>& nodes, std::uint32_t result) {
  std::vector<std::uint32_t> last(nodes.size(), 0);
  last[result] = static_cast<std::uint32_t>(nodes.size());
  for (std::uint32_t n = result + 1; n-- > 0;) {
    if (last[n] == 0) continue;
    for (int i = 0; i < Arity(nodes[n].operation); ++i) {
      std::uint32_t& reader = last[nodes[n].in[i]];
      reader = std::max(reader, n);
    }
  }
  return last;
}

/// Gives out the numbers of registers.
class Registers {
 public:
  std::uint32_t Take() {
    if (free_.empty()) return count_++;
    const std::uint32_t number = free_.back();
    free_.pop_back();
    return number;
  }
  void GiveBack(std::uint32_t number) { free_.push_back(number); }
  std::size_t count() const { return count_; }

 private:
  std::vector<std::uint32_t> free_;
  std::uint32_t count_ = 0;
};

/// Goes through values in order and says which row each belongs to.
class RowCursor {
 public:
  explicit RowCursor(const ExpressionRows& rows) : rows_(&rows) {}

  /// The number of values, at most `most`, from `at` on that belong to row(). `at` never falls.
  std::size_t RunAt(std::size_t at, std::size_t most) {
    while (End() <= at) ++row_;
    return std::min(End() - at, most);
  }
  std::size_t row() const { return row_; }

 private:
  std::size_t End() const {
    if (rows_->splits.empty()) return (row_ + 1) * rows_->width;
    return static_cast<std::size_t>(rows_->splits[row_ + 1]) * rows_->width;
  }

  const ExpressionRows* rows_;
  std::size_t row_ = 0;
};

std::size_t SizeOf(Machine machine) { return machine == Machine::kFloat32 ? 4 : 8; }

}  // namespace

Program Program::Assemble(Parsed parsed) {
  Program program;
  program.type_ = TypeOf(parsed.result.type);
  program.inputs_ = std::move(parsed.inputs);
  program.scalar_ = std::all_of(program.inputs_.begin(), program.inputs_.end(),
                                [](const ExpressionInput& input) { return input.scalar; });
  const std::vector<Node>& nodes = parsed.graph.nodes();
  const std::uint32_t result = parsed.result.node;
  const std::vector<std::uint32_t> last = LastReaders(nodes, result);
  std::vector<Place> places(nodes.size());
  Registers registers;
  // Constants first: they are written once, before the first block, and keep their registers.
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    if (last[n] == 0 || nodes[n].operation != Operation::kConstant) continue;
    places[n].number = registers.Take();
    program.constants_.push_back({nodes[n].machine, nodes[n].bits, places[n].number});
  }
  for (std::uint32_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[n];
    if (last[n] == 0 || node.operation == Operation::kConstant) continue;
    Instruction instruction;
    if (node.operation == Operation::kLoad) {
      instruction.column = static_cast<std::uint32_t>(node.bits);
      const ExpressionInput& input = program.inputs_[instruction.column];
      instruction.spread = input.scalar && !program.scalar_;
      if (!instruction.spread && LiesAsRegister(input.dtype, node.machine)) {
        places[n] = {true, instruction.column};
        continue;
      }
      instruction.machine = node.machine;
      instruction.loads = FindLoads(input.dtype, node.machine);
    } else {
      instruction.kernel = FindKernel(node.operation, node.operands);
      assert(instruction.kernel != nullptr);
    }
    // Before operands give back theirs: a kernel does not write where it reads.
    instruction.out = places[n].number = registers.Take();
    for (int i = 0; i < Arity(node.operation); ++i) {
      const std::uint32_t in = node.in[i];
      instruction.in[i] = places[in];
      const bool constant = nodes[in].operation == Operation::kConstant;
      const bool again = std::find(node.in.begin(), node.in.begin() + i, in) != node.in.begin() + i;
      if (last[in] == n && !constant && !again && !places[in].in_column) {
        registers.GiveBack(places[in].number);
      }
    }
    program.instructions_.push_back(instruction);
  }
  program.result_ = places[result];
  program.registers_ = registers.count();
  return program;
}

std::size_t Program::scratch_bytes() const { return registers_ * kRegisterBytes; }

void Program::Run(std::span<const std::span<const std::byte>> in, const ExpressionRows& rows,
                  std::size_t count, std::span<std::byte> scratch, std::span<std::byte> out) const {
  assert(in.size() == inputs_.size() && out.size() == count * DTypeSize(type_));
  assert(scratch.size() >= scratch_bytes());
  if (count == 0) return;
  const auto at_register = [&](std::uint32_t number) {
    return scratch.data() + number * kRegisterBytes;
  };
  for (const Fill& constant : constants_) {
    std::byte* const to = at_register(constant.out);
    const std::size_t size = SizeOf(constant.machine);
    for (std::size_t i = 0; i < std::min(count, kBlock); ++i) {
      std::memcpy(to + i * size, &constant.bits, size);
    }
  }
  RowCursor begin_of_block(rows);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(count - begin, kBlock);
    const auto at = [&](Place place) -> const void* {
      if (!place.in_column) return at_register(place.number);
      return in[place.number].data() + begin * DTypeSize(inputs_[place.number].dtype);
    };
    RowCursor end_of_block = begin_of_block;
    for (const Instruction& one : instructions_) {
      std::byte* const to = at_register(one.out);
      if (one.kernel != nullptr) {
        one.kernel(to, at(one.in[0]), at(one.in[1]), at(one.in[2]), n);
      } else if (!one.spread) {
        one.loads.each(to, in[one.column].data(), begin, n);
      } else {
        RowCursor cursor = begin_of_block;
        for (std::size_t done = 0; done < n;) {
          const std::size_t run = cursor.RunAt(begin + done, n - done);
          one.loads.same(to + done * SizeOf(one.machine), in[one.column].data(), cursor.row(), run);
          done += run;
        }
        end_of_block = cursor;
      }
    }
    begin_of_block = end_of_block;
    Store(type_, at(result_), out.data() + begin * DTypeSize(type_), n);
  }
}

}  // namespace millrace::expr_internal
