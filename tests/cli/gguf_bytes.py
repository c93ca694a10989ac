"""GGUF files for command-line tests, put together byte by byte; and real models with a few bytes changed. Checks nothing."""
import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q", I64: "<q", F64: "<d"}


def string(text):
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def value(kind, data):
    if kind == STRING:
        return string(data)
    if kind == ARRAY:
        element, elements = data
        return struct.pack("<IQ", element, len(elements)) + b"".join(value(element, e) for e in elements)
    return struct.pack(FORMATS[kind], data)


def key_value(key, kind, data):
    return string(key) + struct.pack("<I", kind) + value(kind, data)


def build(metadata, tensors, alignment=32, version=3):
    """metadata: [(key, kind, value)]; tensors: [(name, dims innermost first, type id, bytes)]. Returns the file."""
    infos, data = b"", b""
    for name, dims, type_id, blob in tensors:
        infos += string(name) + struct.pack("<I", len(dims)) + struct.pack("<%dQ" % len(dims), *dims)
        infos += struct.pack("<IQ", type_id, len(data))
        data += blob + bytes(-len(blob) % alignment)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(key_value(*kv) for kv in metadata) + infos
    return head + bytes(-len(head) % alignment) + data


class Model:
    """The header of a GGUF file, taken apart just enough to change it: raw key-values and tensor infos."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.at = 8
        n_tensors, n_key_values = self.numbers("<QQ")
        self.key_values, self.tensors = {}, {}
        for _ in range(n_key_values):
            start = self.at
            key = self.text()
            kind, = self.numbers("<I")
            self.skip(kind)
            self.key_values[key] = self.bytes[start:self.at]
        for _ in range(n_tensors):
            name = self.text()
            n_dims, = self.numbers("<I")
            dims = self.numbers("<%dQ" % n_dims)
            type_id, offset = self.numbers("<IQ")
            self.tensors[name] = [dims, type_id, offset]
        self.data = self.bytes[self.at + -self.at % 32:]
        del self.bytes

    def numbers(self, form):
        out = struct.unpack_from(form, self.bytes, self.at)
        self.at += struct.calcsize(form)
        return out

    def text(self):
        n, = self.numbers("<Q")
        self.at += n
        return self.bytes[self.at - n:self.at].decode()

    def skip(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            element, n = self.numbers("<IQ")
            if element == STRING:
                for _ in range(n):
                    self.text()
            else:
                self.at += n * struct.calcsize(FORMATS[element])
        else:
            self.at += struct.calcsize(FORMATS[kind])

    def set(self, key, kind, data):
        self.key_values[key] = key_value(key, kind, data)

    def write(self, path, with_data=True):
        """The file; without data its tensors read as zeros from a hole."""
        infos = b""
        for name, (dims, type_id, offset) in self.tensors.items():
            infos += string(name.rstrip("\0")) + struct.pack("<I", len(dims)) + struct.pack("<%dQ" % len(dims), *dims)
            infos += struct.pack("<IQ", type_id, offset)
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.key_values))
        head += b"".join(self.key_values.values()) + infos
        head += bytes(-len(head) % 32)
        with open(path, "wb") as file:
            file.write(head)
            if with_data:
                file.write(self.data)
            else:
                file.truncate(len(head) + len(self.data))
