// The layout: magic, version, counts, key-values, tensor infos, padding, tensor data each padded to the alignment.
#include "gguf/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace quern::gguf {
namespace {

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_string(std::string& out, std::string_view text) {
  put(out, uint64_t(text.size()));
  out += text;
}

uint64_t padded(uint64_t n_bytes, uint64_t alignment) {
  return (n_bytes + alignment - 1) / alignment * alignment;
}

/// A file being written under another name; gone again unless it was finished.
class PendingFile {
 public:
  explicit PendingFile(const std::filesystem::path& path) : path_(path), pending_(path.string() + ".part") {
    fd_ = ::open(pending_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) fail("opening");
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  ~PendingFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!done_) ::unlink(pending_.c_str());
  }
  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("writing");
      bytes.remove_prefix(size_t(n));
    }
  }
  void finish() {
    if (::fsync(fd_) != 0) fail("writing");
    if (::close(std::exchange(fd_, -1)) != 0) fail("closing");
    if (::rename(pending_.c_str(), path_.c_str()) != 0) fail("renaming");
    done_ = true;
  }

 private:
  [[noreturn]] void fail(const char* action) const {
    throw_error(ErrorKind::kRuntime, "{} '{}' failed: {}", action, pending_, std::strerror(errno));
  }
  std::filesystem::path path_;
  std::string pending_;
  int fd_ = -1;
  bool done_ = false;
};

}  // namespace

Writer::Writer(uint32_t alignment) : alignment_(alignment) {
  QUERN_CHECK(std::has_single_bit(alignment) && alignment >= 8 && alignment <= 1 << 20, "alignment {}", alignment);
  if (alignment != 32) {
    begin_value("general.alignment", ValueType::U32);
    append(&alignment, sizeof(alignment));
  }
}

void Writer::begin_value(std::string_view key, ValueType type) {
  QUERN_CHECK(!key.empty() && keys_.emplace(key).second, "key {}", quoted(key));
  append_string(key);
  put(metadata_, uint32_t(type));
  ++n_key_values_;
}

void Writer::begin_array(std::string_view key, ValueType element_type, uint64_t n) {
  begin_value(key, ValueType::Array);
  put(metadata_, uint32_t(element_type));
  put(metadata_, n);
}

void Writer::append_string(std::string_view text) {
  put_string(metadata_, text);
}

void Writer::set(std::string_view key, std::string_view value) {
  begin_value(key, ValueType::String);
  append_string(value);
}

void Writer::set_array(std::string_view key, std::span<const std::string_view> values) {
  begin_array(key, ValueType::String, values.size());
  for (const std::string_view value : values) append_string(value);
}

void Writer::set(std::string_view key, const Value& value) {
  if (key == "general.alignment") return;
  switch (value.type) {
    case ValueType::U8:
      return set(key, uint8_t(std::get<uint64_t>(value.data)));
    case ValueType::U16:
      return set(key, uint16_t(std::get<uint64_t>(value.data)));
    case ValueType::U32:
      return set(key, uint32_t(std::get<uint64_t>(value.data)));
    case ValueType::U64:
      return set(key, std::get<uint64_t>(value.data));
    case ValueType::I8:
      return set(key, int8_t(std::get<int64_t>(value.data)));
    case ValueType::I16:
      return set(key, int16_t(std::get<int64_t>(value.data)));
    case ValueType::I32:
      return set(key, int32_t(std::get<int64_t>(value.data)));
    case ValueType::I64:
      return set(key, std::get<int64_t>(value.data));
    case ValueType::F32:
      return set(key, float(std::get<double>(value.data)));
    case ValueType::F64:
      return set(key, std::get<double>(value.data));
    case ValueType::Bool:
      return set(key, std::get<bool>(value.data));
    case ValueType::String:
      return set(key, std::get<std::string_view>(value.data));
    case ValueType::Array:
      break;
  }
  const Array& array = std::get<Array>(value.data);
  if (array.element_type == ValueType::String) return set_array(key, std::span(array.strings));
  begin_array(key, array.element_type, array.size);
  append(array.bytes.data(), array.bytes.size());
}

void Writer::add_tensor(std::string_view name, TensorType type, std::span<const uint64_t> dims) {
  QUERN_CHECK(!name.empty() && names_.emplace(name).second, "tensor {}", quoted(name));
  QUERN_CHECK(!dims.empty() && dims.size() <= 4, "{} dimensions", dims.size());
  const FormatInfo& format = format_info(type);
  QUERN_CHECK(dims[0] % format.block_elems == 0, "rows of {} in {}", dims[0], format.name);
  uint64_t n_bytes = row_bytes(type, dims[0]);
  for (const uint64_t dim : dims.subspan(1)) n_bytes *= dim;
  tensors_.push_back({std::string(name), type, {dims.begin(), dims.end()}, data_bytes_, n_bytes});
  data_bytes_ += padded(n_bytes, alignment_);
}

std::string Writer::header() const {
  std::string out = "GGUF";
  put(out, uint32_t(3));
  put(out, uint64_t(tensors_.size()));
  put(out, n_key_values_);
  out += metadata_;
  for (const Tensor& tensor : tensors_) {
    put_string(out, tensor.name);
    put(out, uint32_t(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) put(out, dim);
    put(out, uint32_t(tensor.type));
    put(out, tensor.offset);
  }
  out.resize(padded(out.size(), alignment_));
  return out;
}

void Writer::emit(const TensorData& data, const std::function<void(std::string_view)>& sink) const {
  sink(header());
  const std::string zeros(alignment_, '\0');
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const uint64_t n_bytes = tensors_[i].n_bytes;
    const auto tensor_bytes = data(i);
    QUERN_CHECK(tensor_bytes.size() == n_bytes, "tensor {} has {} bytes, {} were given", tensors_[i].name, n_bytes,
                tensor_bytes.size());
    sink({reinterpret_cast<const char*>(tensor_bytes.data()), tensor_bytes.size()});
    sink(std::string_view(zeros).substr(0, size_t(padded(n_bytes, alignment_) - n_bytes)));
  }
}

std::string Writer::bytes(const TensorData& data) const {
  std::string out;
  emit(data, [&out](std::string_view run) { out += run; });
  return out;
}

void Writer::write(const std::filesystem::path& path, const TensorData& data) const {
  PendingFile file(path);
  emit(data, [&file](std::string_view run) { file.write(run); });
  file.finish();
}

}  // namespace quern::gguf
