// Converts the computations and deliveries of a consumer to and from the wire.
//
// Free functions; thread-safe.
#pragma once

#include "common/base/result.h"
#include "common/operations/consumer_program.h"
#include "common/operations/operation.h"
#include "common/operations/tensor_graph.h"
#include "millrace/v1/common.pb.h"

namespace millrace {

/// Appends parameters, by the bytes of their names.
void ToProto(const Params& params,
             google::protobuf::RepeatedPtrField<v1::OperationParam>* to);

/// REQUIRES: the operation is in the table.
void ToProto(const TensorDefinition& definition, const OperationTable& table,
             v1::TensorDefinition* to);

/// Sources are not part of the message. REQUIRES: the program names its outputs, and every
/// operation is in the table.
void ToProto(const ConsumerProgram& program, const OperationTable& table, v1::TensorProgram* to);

/// The same without sources. Unimplemented, with a remedy, if this program lacks an operation in
/// the requested version. InvalidArgument if a parameter has no value, or if graphs cannot be
/// padded to the requested size.
Result<ConsumerProgram> FromProto(const v1::TensorProgram& program, const OperationTable& table);

}  // namespace millrace
