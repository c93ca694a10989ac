// libFuzzer target of the GGUF parser: any bytes give a header or Error(kModel), and a header's spans lie within the
// bytes.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/check.h"
#include "gguf/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern;
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const gguf::Header header = gguf::parse(bytes);
    for (const auto& [key, value] : header.metadata) {
      const auto* array = std::get_if<gguf::Array>(&value.data);
      if (!array || array->element_type == gguf::ValueType::String) continue;
      for (size_t i = 0; i < array->size; ++i) (void)array->number(i);
    }
    for (const gguf::TensorInfo& tensor : header.tensors) {
      if (header.data_offset + tensor.offset + tensor.n_bytes > size) std::abort();
      if (header.find_tensor(tensor.name) != &tensor) std::abort();
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) std::abort();
  }
  return 0;
}
