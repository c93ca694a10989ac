// What a model is made of, for people: what its architecture's row says, what the file's keys say, what the presence of tensors says.
#pragma once
#include <string>
#include <vector>

#include "gguf/gguf.h"

namespace quern {

struct ModelFact {
  std::string what, value;
};

struct ModelDescription {
  std::string architecture;           ///< the row's name, or empty: there is none
  std::string refusal;                ///< why quern cannot run the file; empty: it can
  std::vector<ModelFact> row;         ///< what neither keys nor tensors can say; what is as in most models is left out
  std::vector<ModelFact> keys;        ///< sizes and numbers, as read (where a key is absent, the row's or the usual value)
  std::vector<ModelFact> tensors;     ///< parts that a model may have or not
};

/// Reads the header and the small tensors (norms, biases) that loading decodes. Never throws for what the file says: that is the refusal.
ModelDescription describe_model(const gguf::Header& header);

}  // namespace quern
